//! The native API in the OpenAPI document: paths, parameters and bodies from the table of
//! operations, the shapes of fields and answers from `schemas.json`.

use super::PROBLEM;
use crate::protocol::http::live::EVENT_STREAM;
use crate::protocol::http::openapi::Schemas;
use crate::protocol::http::response::JSON;
use crate::protocol::operations::{
    CHANGE_FIELDS, Method, NDJSON, Operation, OperationRow, PUT_FIELDS, PathPart, TAR, operations,
    scheduled_put_fields,
};
use std::collections::BTreeMap;
use utoipa::openapi::path::{self, HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, SchemaType, Type,
};
use utoipa::openapi::{
    ContentBuilder, OneOfBuilder, Paths, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
};

/// Before the names of schemas in the document.
const PREFIX: &str = "V1";

/// What `schemas.json` says.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Shapes {
    /// Parameters of query strings, by name.
    parameters: BTreeMap<String, RefOr<Schema>>,
    /// Members of bodies, by name.
    fields: BTreeMap<String, RefOr<Schema>>,
    /// By the name of the operation.
    operations: BTreeMap<String, OperationShape>,
    /// Named schemas.
    answers: BTreeMap<String, RefOr<Schema>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationShape {
    /// Members that must be there.
    #[serde(default)]
    required: Vec<String>,
    /// Members with another shape than elsewhere.
    #[serde(default)]
    fields: BTreeMap<String, RefOr<Schema>>,
    /// Named schemas, `events`, `ndjson` or `tar`, by status; `null`: without a body.
    answers: BTreeMap<String, Option<String>>,
}

impl Shapes {
    /// # Panics
    /// If the file is wrong: the test of the document reads it.
    fn read() -> Self {
        let text = include_str!("schemas.json");
        serde_json::from_str(text).unwrap_or_else(|error| panic!("schemas.json: {error}"))
    }

    fn field(&self, own: Option<&OperationShape>, field: &str) -> RefOr<Schema> {
        let own = own.and_then(|own| own.fields.get(field));
        let shape = own.or_else(|| self.fields.get(field));
        shape.unwrap_or_else(|| panic!("schemas.json: there is no field '{field}'")).clone()
    }

    /// An object with these members and no others.
    fn object(&self, own: Option<&OperationShape>, fields: &[&str]) -> Schema {
        let mut object = ObjectBuilder::new().schema_type(Type::Object);
        for field in fields {
            object = object.property(*field, self.field(own, field));
        }
        for field in own.iter().flat_map(|own| &own.required) {
            object = object.required(field);
        }
        object.additional_properties(Some(AdditionalProperties::FreeForm(false))).into()
    }
}

fn reference(name: &str) -> RefOr<Schema> {
    Ref::from_schema_name(format!("{PREFIX}{name}")).into()
}

/// The path with its parameters in braces.
pub(in crate::protocol::http) fn template(row: &OperationRow) -> String {
    let part = |part: &PathPart| match part {
        PathPart::Is(text) => format!("/{text}"),
        PathPart::Job => "/{id}".to_owned(),
        PathPart::Queue => "/{queue}".to_owned(),
        PathPart::Schedule => "/{name}".to_owned(),
        PathPart::Action => "/{action}".to_owned(),
        PathPart::Constraint => "/{constraint}".to_owned(),
        PathPart::Connection => "/{connection}".to_owned(),
    };
    format!("/api/v1{}", row.path.iter().map(part).collect::<String>())
}

/// `None`: the operation is a line request only.
fn method(method: Method) -> Option<HttpMethod> {
    Some(match method {
        Method::Get => HttpMethod::Get,
        Method::Post => HttpMethod::Post,
        Method::Put => HttpMethod::Put,
        Method::Patch => HttpMethod::Patch,
        Method::Delete => HttpMethod::Delete,
        Method::None => return None,
    })
}

/// Adds all operations, and the schemas that they name.
pub(in crate::protocol::http) fn add_paths(paths: &mut Paths, schemas: &mut Schemas) {
    let shapes = Shapes::read();
    let mut add = |name: &str, shape| {
        schemas.add(&format!("{PREFIX}{name}"), shape);
    };
    add("Put", shapes.object(None, PUT_FIELDS).into());
    add("ScheduledPut", shapes.object(None, &scheduled_put_fields()).into());
    add("Change", shapes.object(shapes.operations.get("change_job"), CHANGE_FIELDS).into());
    for (name, shape) in &shapes.answers {
        add(name, shape.clone());
    }
    for row in operations() {
        if let Some(method) = method(row.method) {
            paths.add_path_operation(template(row), vec![method], operation(row, &shapes));
        }
    }
}

fn operation(row: &OperationRow, shapes: &Shapes) -> path::Operation {
    let mut operation =
        OperationBuilder::new().operation_id(Some(row.name)).summary(Some(row.summary));
    for parameter in row.path.iter().filter_map(path_parameter) {
        operation = operation.parameter(parameter);
    }
    let own = shapes.operations.get(row.name);
    let own = own.unwrap_or_else(|| panic!("schemas.json: there is no operation '{}'", row.name));
    if matches!(row.method, Method::Get | Method::Delete) {
        for field in row.fields {
            let shape = shapes.parameters.get(*field);
            let shape =
                shape.unwrap_or_else(|| panic!("schemas.json: there is no parameter '{field}'"));
            let parameter = ParameterBuilder::new()
                .name(*field)
                .parameter_in(ParameterIn::Query)
                .required(Required::False)
                .schema(Some(shape.clone()));
            operation = operation.parameter(parameter.build());
        }
    } else {
        let kind = if row.operation == Operation::Import { NDJSON } else { JSON };
        let content = ContentBuilder::new().schema(Some(body(row, own, shapes))).build();
        let needs_body = !own.required.is_empty() || row.operation == Operation::Put;
        let required = if needs_body { Required::True } else { Required::False };
        let body = RequestBodyBuilder::new().content(kind, content).required(Some(required));
        operation = operation.request_body(Some(body.build()));
    }
    for (status, name) in &own.answers {
        operation = operation.response(status, answer(name.as_deref(), JSON, "The answer"));
    }
    operation
        .response("default", answer(Some("Problem"), PROBLEM, "A problem, as RFC 9457 says"))
        .build()
}

fn answer(name: Option<&str>, kind: &str, about: &str) -> Response {
    let response = ResponseBuilder::new().description(about);
    let text = || Schema::from(ObjectBuilder::new().schema_type(Type::String)).into();
    let (kind, schema) = match name {
        None => return response.build(),
        Some("ndjson") => (NDJSON, text()),
        Some("tar") => (TAR, text()),
        Some("events") => (EVENT_STREAM, text()),
        Some(name) => (kind, reference(name)),
    };
    response.content(kind, ContentBuilder::new().schema(Some(schema)).build()).build()
}

/// The body of a request. A put may be an array; what is wrong in an element is its own affair.
fn body(row: &OperationRow, own: &OperationShape, shapes: &Shapes) -> RefOr<Schema> {
    match row.operation {
        Operation::Put => {
            let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
            let array = ArrayBuilder::new().items(any).min_items(Some(1)).max_items(Some(1_000));
            OneOfBuilder::new().item(reference("Put")).item(array).into()
        }
        Operation::Change => reference("Change"),
        Operation::Import => Schema::from(ObjectBuilder::new().schema_type(Type::String)).into(),
        _ => shapes.object(Some(own), row.fields).into(),
    }
}

fn path_parameter(part: &PathPart) -> Option<path::Parameter> {
    let (name, about) = match part {
        PathPart::Is(_) => return None,
        PathPart::Job => ("id", "The id of a job; what is none was never given out"),
        PathPart::Queue => ("queue", "The name of a queue: any bytes, percent-encoded"),
        PathPart::Schedule => ("name", "The name of a schedule: 1 to 255 bytes"),
        PathPart::Action => ("action", "The number of an action"),
        PathPart::Constraint => ("constraint", "The name of a constraint: 1 to 255 bytes"),
        PathPart::Connection => ("connection", "The number of a connection"),
    };
    let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(about))
        .schema(Some(Schema::from(text)));
    Some(parameter.build())
}
