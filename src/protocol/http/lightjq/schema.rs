//! LightJQ in the OpenAPI document: schemas made of the tables by which messages are parsed.

use super::messages::{
    CONSTRAINT, DONE, ERROR, FAILURE, Field, FieldKind, JOB, JOB_ACCEPTED, OPERATORS, Presence,
    STATUS, TYPES, WORKER, WORKER_ACCEPTED, WORKER_JOB,
};
use super::{MSGPACK, Operation, WAIT_PARAMETER, WORKER_FIELD};
use crate::protocol::http::openapi::{Answer, Content, Description, Schemas};
use serde_json::Value;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder};
use utoipa::openapi::path::{ParameterIn, PathItem, PathItemBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ArrayItems, Object, ObjectBuilder, OneOfBuilder,
    SchemaType, Type,
};
use utoipa::openapi::{ContentBuilder, RefOr, Required, ResponseBuilder, Schema};

/// The schema of a message: these fields and no others.
fn table(fields: &[Field]) -> ObjectBuilder {
    let no_others = Some(AdditionalProperties::FreeForm(false));
    let mut shape = ObjectBuilder::new().schema_type(Type::Object).additional_properties(no_others);
    for field in fields {
        shape = shape.property(field.name, property(field));
        if field.need == Presence::Required {
            shape = shape.required(field.name);
        }
    }
    shape
}

fn property(field: &Field) -> Schema {
    let default = match field.need {
        // Proof: the tables are constant, and a test builds the document from all of them.
        Presence::Default(json) => Some(serde_json::from_str(json).expect("a default is JSON")),
        Presence::Required | Presence::Optional => None,
    };
    let about = Some(field.about);
    let object = |object: ObjectBuilder, default: Option<Value>| {
        Schema::from(object.description(about).default(default))
    };
    match field.kind {
        FieldKind::Texts => {
            let array = ArrayBuilder::new().items(Object::with_type(Type::String));
            Schema::from(array.min_items(Some(1)).description(about))
        }
        FieldKind::Matcher => {
            let array = ArrayBuilder::new().items(condition());
            Schema::from(array.description(about))
        }
        FieldKind::Map(fields) => object(table(fields), default),
        kind => object(scalar(kind), default),
    }
}

fn scalar(kind: FieldKind) -> ObjectBuilder {
    let of = |kind: Type| ObjectBuilder::new().schema_type(kind);
    match kind {
        FieldKind::Bool => of(Type::Boolean),
        FieldKind::Id => of(Type::String).pattern(Some("^[0-9]+$")),
        FieldKind::Integer { min, max, strict } => {
            let narrow = |bound: i64| isize::try_from(bound).unwrap_or(isize::MAX);
            let integer = of(Type::Integer).minimum(Some(narrow(min)));
            if strict { integer.maximum(Some(narrow(max))) } else { integer }
        }
        FieldKind::Seconds => of(Type::Number).exclusive_minimum(Some(0_isize)),
        FieldKind::Word(words) => of(Type::String).enum_values(Some(words.iter().copied())),
        FieldKind::Text | FieldKind::Moment | FieldKind::Path | FieldKind::Url => of(Type::String),
        FieldKind::Any | FieldKind::Texts | FieldKind::Matcher | FieldKind::Map(_) => {
            ObjectBuilder::new().schema_type(SchemaType::AnyValue)
        }
    }
}

/// `[path, operator, value]`.
fn condition() -> ArrayBuilder {
    let operators = OPERATORS.map(|(text, _)| text);
    let operator = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(operators));
    let items = [
        Schema::from(Object::with_type(Type::String)),
        Schema::from(operator),
        Schema::from(Object::with_type(SchemaType::AnyValue)),
    ];
    ArrayBuilder::new()
        .prefix_items(items)
        .items(ArrayItems::False)
        .min_items(Some(3))
        .max_items(Some(3))
}

/// A report: success or failure.
fn report(shapes: &mut Schemas) -> RefOr<Schema> {
    let mut one = |name: &str, fields: &[Field], word: &str| {
        let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([word]));
        let shape = table(fields).property("type", word);
        shapes.add(name, Schema::from(shape).into())
    };
    let success = one("Success", &DONE, TYPES[0]);
    let failure = one("Failure", &FAILURE, TYPES[1]);
    Schema::from(OneOfBuilder::new().item(success).item(failure)).into()
}

/// The status of a job, or nil.
fn status(shapes: &mut Schemas) -> RefOr<Schema> {
    let status = shapes.add("JobStatus", Schema::from(table(&STATUS)).into());
    let gone = ObjectBuilder::new()
        .schema_type(Type::Null)
        .description(Some("The job is over and its result is gone, or it was cancelled"));
    Schema::from(OneOfBuilder::new().item(status).item(gone)).into()
}

pub(in crate::protocol::http) fn error(shapes: &mut Schemas) -> RefOr<Schema> {
    shapes.add("Wrong", Schema::from(table(&ERROR)).into())
}

/// The schema of the request body of an operation.
fn body(operation: Operation, shapes: &mut Schemas) -> Option<RefOr<Schema>> {
    let (name, fields) = match operation {
        Operation::Put => ("PushedJob", &JOB[..]),
        Operation::Register => ("Worker", &WORKER[..]),
        Operation::SetConstraint => ("Constraint", &CONSTRAINT[..]),
        Operation::Report => return Some(report(shapes)),
        _ => return None,
    };
    Some(shapes.add(name, Schema::from(table(fields)).into()))
}

/// The description of an operation.
pub(in crate::protocol::http) fn describe(
    operation: Operation,
    shapes: &mut Schemas,
) -> Description {
    let body = body(operation, shapes);
    let mut closed =
        |name: &str, fields: &[Field]| Some(shapes.add(name, Schema::from(table(fields)).into()));
    let nothing_to_say =
        Schema::from(ObjectBuilder::new().schema_type(Type::Object).max_properties(Some(0)));
    let going = "How the job is going; a result that is kept until it is fetched goes with this";
    let (summary, answers) = match operation {
        Operation::Put => {
            ("Push a job", vec![(201, "The job is queued", closed("JobAccepted", &JOB_ACCEPTED))])
        }
        Operation::GetStatus => {
            ("Ask how a job is going", vec![(200, going, Some(status(shapes)))])
        }
        Operation::Await => {
            let ended = "How the job has ended; a result that is kept until fetched goes with this";
            ("Wait for the end of a job", vec![(200, ended, Some(status(shapes)))])
        }
        Operation::Cancel => ("Cancel a job", vec![(204, "It is cancelled", None)]),
        Operation::Register => {
            let accepted = closed("WorkerAccepted", &WORKER_ACCEPTED);
            (
                "Register a worker",
                vec![(201, "It is on the list, in place of one at the same url", accepted)],
            )
        }
        Operation::Deregister => ("Unregister a worker", vec![(204, "Its jobs go back", None)]),
        Operation::Report => ("Tell what came of a job", vec![(204, "It is noted", None)]),
        Operation::GetConstraint => {
            let shown = closed("Constraint", &CONSTRAINT);
            ("Show a constraint", vec![(200, "The constraint", shown)])
        }
        Operation::SetConstraint => {
            let done = || Some(nothing_to_say.clone().into());
            let answers = vec![
                (201, "There is such a constraint now", done()),
                (200, "The constraint is another one now", done()),
            ];
            ("Set a constraint", answers)
        }
        Operation::RemoveConstraint => {
            ("Remove a constraint", vec![(204, "Jobs are free of it", None)])
        }
    };
    let wrong = error(shapes);
    let refusals = refusals(operation).into_iter();
    let refusals = refusals.map(|(status, when)| (status, when, Some(wrong.clone())));
    let mut described = Vec::new();
    for (status, when, schema) in answers.into_iter().chain(refusals) {
        let Some(schema) = schema else {
            described.push(Answer { status, when, content: Content::Nothing });
            continue;
        };
        described.push(Answer { status, when, content: Content::Json(schema.clone()) });
        described.push(Answer { status, when, content: Content::Packed(schema) });
    }
    Description { summary, body, answers: described }
}

/// Error responses of the operation itself.
fn refusals(operation: Operation) -> Vec<(u16, &'static str)> {
    let never = (404, "No job was ever given this id");
    let full = "The server has no place for it, or serves as many clients as it may";
    let bad = (400, "A field is missing or wrong, or the message is no proper HTTP");
    let no_space = (507, "The disk is full");
    match operation {
        Operation::Put | Operation::Register | Operation::SetConstraint => {
            vec![bad, (503, full), no_space]
        }
        Operation::GetStatus => vec![never],
        Operation::Await => vec![
            (400, "The time to wait is no number of seconds, or the message is no proper HTTP"),
            never,
            (408, "The job has not ended in this time, or the request took too long to come"),
        ],
        Operation::Cancel => vec![
            (404, "There is no such job any more, or never was"),
            (409, "It is running or has ended"),
        ],
        Operation::Deregister => vec![bad, (404, "There is no such worker")],
        Operation::Report => vec![
            bad,
            (404, "The worker does not hold this job, or there is none: the field is named"),
            no_space,
        ],
        Operation::GetConstraint | Operation::RemoveConstraint => vec![
            (400, "The name is empty or not UTF-8, or the message is no proper HTTP"),
            (404, "There is no constraint of this name"),
        ],
    }
}

/// The parameters of an operation besides those of its path.
pub(in crate::protocol::http) fn parameters(operation: Operation) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    if operation.names_worker() {
        let id = ObjectBuilder::new().schema_type(Type::String);
        let worker = ParameterBuilder::new().name(WORKER_FIELD).parameter_in(ParameterIn::Header);
        let worker = worker.required(Required::True).description(Some("The id of the worker"));
        parameters.push(worker.schema(Some(Schema::from(id))).build());
    }
    if operation == Operation::Await {
        let seconds = ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0_isize))
            .default(Some(Value::from(super::POLL_WAIT_DEFAULT.as_secs())));
        let wait = ParameterBuilder::new().name(WAIT_PARAMETER).parameter_in(ParameterIn::Query);
        let wait = wait.required(Required::False).description(Some("How many seconds to wait"));
        parameters.push(wait.schema(Some(Schema::from(seconds))).build());
    }
    parameters
}

/// The request that the server sends to workers.
pub(in crate::protocol::http) fn webhook(shapes: &mut Schemas) -> (&'static str, PathItem) {
    let job = table(&WORKER_JOB);
    let job = shapes.add("WorkerJob", Schema::from(job).into());
    let content = ContentBuilder::new().schema(Some(job)).build();
    let body = RequestBodyBuilder::new().content(MSGPACK, content).required(Some(Required::True));
    let mut operation = OperationBuilder::new()
        .operation_id(Some("worker_job"))
        .summary(Some("Take a job: POST {url}/worker-job, url being where the worker listens"))
        .request_body(Some(body.build()));
    for (status, what) in WORKER_ANSWERS {
        operation = operation.response(status, ResponseBuilder::new().description(what).build());
    }
    let item = PathItemBuilder::new().operation(HttpMethod::Post, operation.build());
    ("worker-job", item.build())
}

/// The responses of a worker.
const WORKER_ANSWERS: [(&str, &str); 4] = [
    ("202", "The worker works on it, and tells by POST /done what came of it"),
    ("400", "The job is none for it: it has failed, and is not offered to this worker again"),
    ("404", "The same, and the worker is offered no jobs of this name any more"),
    ("default", "The job goes back; the worker is tried again after 1, 2, 4 and 8 seconds"),
];
