//! The OpenAPI 3.1 document. It is made from the table of routes, from the types of bodies and
//! responses, and from the tables of fields, so it cannot deviate from them. `tests` compares it
//! with sessions.

mod common;
mod description;
mod links;
#[cfg(test)]
mod msgpack_schema;
#[cfg(test)]
mod schema_check;
#[cfg(test)]
mod tests;

pub(super) use description::{Answer, Content, Description, Schemas};

use super::response::{JSON, MSGPACK};
use super::route::{Method, Operation, ROUTES, Route, Segment};
use super::{health, index, jobq, lightjq, metrics, native, processor_status};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::openapi::path::{self, HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ComponentsBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder, Paths, PathsBuilder, RefOr,
    Required, Response, ResponseBuilder, Schema,
};

/// The document, made at the first request, in about a millisecond.
pub(super) fn document() -> &'static str {
    static TEXT: LazyLock<String> =
        // Proof: all keys of maps are strings, the only condition of JSON.
        LazyLock::new(|| make().to_json().expect("a document is JSON"));
    &TEXT
}

fn make() -> OpenApi {
    let mut shapes = Schemas::default();
    let mut paths = Paths::new();
    for route in &ROUTES {
        if let Some(operation) = operation(route, &mut shapes) {
            paths.add_path_operation(template(route.path), vec![method(route.method)], operation);
        }
    }
    native::add_paths(&mut paths, &mut shapes);
    let (name, item) = lightjq::webhook(&mut shapes);
    let webhooks = PathsBuilder::new().path(name, item).build();
    let license = License::new(env!("CARGO_PKG_LICENSE"));
    let info = InfoBuilder::new()
        .title(env!("CARGO_PKG_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(license));
    let components = ComponentsBuilder::new().schemas_from_iter(shapes.into_named());
    OpenApiBuilder::new()
        .info(info)
        .paths(paths)
        .webhooks(Some(webhooks))
        .components(Some(components.build()))
        .build()
}

const ABOUT: &str = "Job queues over HTTP: Jobq with JSON below /api/v0; LightJQ below /job, \
    /worker, /done and /constraint with MessagePack, or with JSON where Content-Type and Accept \
    say so; what the processor has at /processor; the native API, with all that the server can do, \
    below /api/v1. HEAD goes wherever GET does but below /job, \
    where a look may take a result along; OPTIONS goes everywhere; any other method that a path \
    does not have is answered by 405 with Allow, and a path that is not here by 404.";

fn method(method: Method) -> HttpMethod {
    match method {
        Method::Get => HttpMethod::Get,
        Method::Post => HttpMethod::Post,
        Method::Put => HttpMethod::Put,
        Method::Delete => HttpMethod::Delete,
    }
}

/// The path with its parameters in braces.
fn template(path: &[Segment]) -> String {
    let segment = |segment: &Segment| match segment {
        Segment::Is(text) => format!("/{text}"),
        Segment::Queue => "/{queue}".to_owned(),
        Segment::Job => "/{id}".to_owned(),
        Segment::Id => "/{job_id}".to_owned(),
        Segment::Constraint => "/{name}".to_owned(),
    };
    path.iter().map(segment).collect()
}

/// `None`: the native API describes its operations itself, and a page of the dashboard is none.
fn describe(route: &Route, shapes: &mut Schemas) -> Option<Description> {
    Some(match route.operation {
        Operation::Index => index::describe(shapes),
        Operation::Health => health::describe(shapes),
        Operation::Metrics => metrics::describe(),
        Operation::Processor => processor_status::describe(shapes),
        Operation::OpenApi => Description {
            summary: "This document",
            body: None,
            answers: vec![Answer {
                status: 200,
                when: "An OpenAPI document",
                content: Content::Json(any_object()),
            }],
        },
        Operation::Jobq(operation) => {
            let default = !route.path.contains(&Segment::Queue);
            jobq::describe(operation, default, shapes)
        }
        Operation::Native(_) | Operation::Page(_) => return None,
        Operation::LightJq(operation) => lightjq::describe(operation, shapes),
    })
}

fn any_object() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Object).build().into()
}

fn operation(route: &Route, shapes: &mut Schemas) -> Option<path::Operation> {
    let Description { summary, body, answers } = describe(route, shapes)?;
    let mut operation =
        OperationBuilder::new().operation_id(Some(route.name)).summary(Some(summary));
    for parameter in route.path.iter().filter_map(parameter) {
        operation = operation.parameter(parameter);
    }
    let own = match route.operation {
        Operation::LightJq(own) => lightjq::parameters(own),
        Operation::Jobq(own) => jobq::parameters(own),
        _ => Vec::new(),
    };
    for parameter in own {
        operation = operation.parameter(parameter);
    }
    if let Some(schema) = body {
        let mut body = RequestBodyBuilder::new().required(Some(Required::True));
        for &kind in body_kinds(route) {
            let content = ContentBuilder::new().schema(Some(schema.clone())).build();
            body = body.content(kind, content);
        }
        operation = operation.request_body(Some(body.build()));
    }
    for (status, mut response) in responses(answers, common::answers(route, shapes)) {
        if status < 300 {
            for (name, link) in links::links(route) {
                response.links.insert(name.into(), link.into());
            }
        }
        operation = operation.response(status.to_string(), response);
    }
    Some(operation.build())
}

/// The media types of the request bodies of a route.
fn body_kinds(route: &Route) -> &'static [&'static str] {
    match route.operation {
        Operation::LightJq(_) => &[MSGPACK, JSON],
        _ => &[JSON],
    }
}

/// Responses by status. What an operation says of a status precedes the common text, and of each
/// media type the first entry counts.
fn responses(
    own: Vec<Answer>,
    common: impl Iterator<Item = Answer>,
) -> impl Iterator<Item = (u16, Response)> {
    let mut found: BTreeMap<u16, Response> = BTreeMap::new();
    for Answer { status, when, content } in own.into_iter().chain(common) {
        let response =
            found.entry(status).or_insert_with(|| ResponseBuilder::new().description(when).build());
        let (kind, schema) = match content {
            Content::Json(schema) => (JSON, schema),
            Content::Packed(schema) => (MSGPACK, schema),
            Content::Text(kind) => {
                (kind, Schema::from(ObjectBuilder::new().schema_type(Type::String)).into())
            }
            Content::Nothing => continue,
        };
        let content = || ContentBuilder::new().schema(Some(schema)).build().into();
        response.content.entry(kind.to_owned()).or_insert_with(content);
    }
    found.into_iter()
}

fn parameter(segment: &Segment) -> Option<path::Parameter> {
    let (name, about, schema) = match segment {
        Segment::Is(_) => return None,
        Segment::Queue => {
            let name = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
            ("queue", "The name of a queue: any bytes but none, percent-encoded", name)
        }
        Segment::Id => {
            let id = ObjectBuilder::new().schema_type(Type::String);
            ("job_id", "The id of a job; what is none was never given out", id)
        }
        Segment::Constraint => {
            let name = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
            ("name", "The name of a constraint, percent-encoded", name)
        }
        Segment::Job => {
            let id = ObjectBuilder::new()
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                .minimum(Some(1_u64))
                .maximum(Some(jobq::ID_MAX));
            ("id", "The id of a job", id)
        }
    };
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path);
    let parameter = parameter.required(Required::True).description(Some(about));
    Some(parameter.schema(Some(Schema::from(schema))).build())
}
