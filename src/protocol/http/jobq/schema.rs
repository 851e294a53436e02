//! Schemas of bodies and responses for the OpenAPI document. `http/openapi/tests` compares them
//! with what is parsed and written.

#![expect(dead_code, reason = "these are shapes: no value is made of them")]

use super::{NAMES_PARAMETER, Operation};
use crate::base::limits::JOB_ID_END;
use crate::model::query::Op;
use crate::protocol::http::openapi::{Answer, Description, Schemas};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{
    Array, ArrayBuilder, ArrayItems, Object, ObjectBuilder, OneOfBuilder, SchemaType, Type,
};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The largest job id.
pub(in crate::protocol::http) const ID_MAX: u64 = JOB_ID_END - 1;

/// A job with everything.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Job {
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    id: u64,
    /// What it carries.
    payload: Value,
    /// What has happened to it, oldest first.
    events: Vec<Event>,
    /// Its user state.
    state: Value,
    /// When it was changed last, in Unix seconds.
    modified: u64,
}

/// A job in a list.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct JobState {
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    id: u64,
    state: Value,
}

/// The jobs of a queue, longest untouched first.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct JobStates {
    jobs: Vec<JobState>,
}

/// Jobs, longest untouched first.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Jobs {
    jobs: Vec<Job>,
}

/// A queue with the number of its jobs.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Queue {
    /// Its name; of a long one the start, and how long it is, unless whole names are asked for.
    id: String,
    jobs: u32,
    /// How long the name is, if that is not all of it.
    #[schema(nullable = false, required = false)]
    bytes: Option<u64>,
}

/// All queues.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Queues {
    queues: Vec<Queue>,
}

/// The name of a queue.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct QueueName {
    #[schema(min_length = 1)]
    id: String,
}

/// How many jobs are gone.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Deleted {
    deleted: u64,
}

/// It is done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Done {}

/// The job has another state.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Conflict {
    /// What is wrong, for people.
    error: String,
    /// The state that it has.
    state: Value,
}

/// A queue to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewQueue {
    /// Its name; without, it gets one by chance.
    #[schema(min_length = 1, nullable = false, required = false)]
    id: Option<String>,
}

/// A job to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewJob {
    payload: Value,
    /// `null` if it is missing.
    #[serde(default)]
    state: Value,
}

/// Which jobs are wanted.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Find {
    /// Terms that must all hold.
    #[serde(default)]
    query: Vec<Term>,
    #[schema(schema_with = any_count, required = false)]
    limit: Option<u64>,
}

/// A whole number of any size: beyond 64 bits it is no limit.
fn any_count() -> Object {
    let count = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0_u64));
    count.description(Some("How many jobs at most.")).build()
}

/// Which job is wanted, and its new state.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Poll {
    /// Terms that must all hold.
    #[serde(default)]
    query: Vec<Term>,
    /// `null` if it is missing. A query that still matches the job with this state gives it to the
    /// next poll as well.
    #[serde(default)]
    state: Value,
}

/// A new state for a job that has the old one.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Advance {
    old: Value,
    new: Value,
}

/// An event for the log of a job: any value.
#[derive(Deserialize)]
struct Note(Value);

impl PartialSchema for Note {
    fn schema() -> RefOr<Schema> {
        let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        Schema::from(any.description(Some("Any JSON value"))).into()
    }
}

impl ToSchema for Note {
    fn name() -> Cow<'static, str> {
        "UserEvent".into()
    }
}

/// `[OP, EXPR, EXPR]`.
#[derive(Deserialize)]
struct Term(Value);

impl PartialSchema for Term {
    fn schema() -> RefOr<Schema> {
        let op =
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some(Op::ALL.map(Op::name)));
        let kinds = [Type::String, Type::Number, Type::Boolean, Type::Null];
        let any = Object::with_type(SchemaType::AnyValue);
        let value = ObjectBuilder::new().property("value", any).required("value");
        let free = utoipa::openapi::schema::AdditionalProperties::FreeForm(false);
        let value = value.additional_properties(Some(free)).build();
        let side = OneOfBuilder::new()
            .item(Object::with_type(SchemaType::from_iter(kinds)))
            .item(value)
            .build();
        let about = "A comparison, [OP, EXPR, EXPR]. A string is an SQLite expression over the \
            columns of a job, or one bare word; {\"value\": ANY} is the value itself";
        tuple(vec![op.into(), side.clone().into(), side.into()], about)
    }
}

impl ToSchema for Term {}

/// `[TAG, {..}]`.
#[derive(Deserialize)]
struct Event(Value);

impl PartialSchema for Event {
    fn schema() -> RefOr<Schema> {
        let any = || Object::with_type(SchemaType::AnyValue);
        let by = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0_u64));
        let events = OneOfBuilder::new()
            .item(event("job_created", []))
            .item(event("job_state_advanced", [("old", any(), true), ("new", any(), true)]))
            .item(event("user_event", [("event", any(), true)]))
            .item(event("job_taken", [("by", by.build(), false)]));
        let others = TAGS.into_iter().fold(events, |events, tag| events.item(event(tag, [])));
        Schema::from(others.description(Some("What has happened to a job"))).into()
    }
}

impl ToSchema for Event {}

/// The tags of events that carry nothing but their time, besides `job_created`.
const TAGS: [&str; 10] = [
    "job_aborted",
    "job_abandoned",
    "job_expired",
    "job_failed",
    "job_retried",
    "job_finished",
    "job_buried",
    "job_kicked",
    "job_due",
    "job_changed",
];

fn event<const N: usize>(tag: &str, members: [(&str, Object, bool); N]) -> RefOr<Schema> {
    let tag = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([tag]));
    let at = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]+$"));
    let mut details = ObjectBuilder::new()
        .property("timestamp", at.description(Some("Unix seconds")))
        .required("timestamp")
        .additional_properties(Some(utoipa::openapi::schema::AdditionalProperties::FreeForm(
            false,
        )));
    for (name, schema, required) in members {
        details = details.property(name, schema);
        if required {
            details = details.required(name);
        }
    }
    tuple(vec![tag.into(), details.into()], "")
}

/// An array of exactly these items.
fn tuple(items: Vec<Schema>, about: &str) -> RefOr<Schema> {
    let count = Some(items.len());
    let about = (!about.is_empty()).then_some(about);
    let array: Array = ArrayBuilder::new()
        .prefix_items(items)
        .items(ArrayItems::False)
        .min_items(count)
        .max_items(count)
        .description(about)
        .build();
    Schema::from(array).into()
}

/// The parameters of an operation besides those of its path.
pub(in crate::protocol::http) fn parameters(operation: Operation) -> Vec<Parameter> {
    if operation != Operation::Queues {
        return Vec::new();
    }
    let (name, whole) = NAMES_PARAMETER;
    let value = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([whole]));
    let names = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
    let names = names.required(Required::False).description(Some("Long names are not cut"));
    vec![names.schema(Some(Schema::from(value))).build()]
}

/// The description of an operation, on the queue `default` or on any.
pub(in crate::protocol::http) fn describe(
    operation: Operation,
    default: bool,
    shapes: &mut Schemas,
) -> Description {
    let (summary, body, first) = match operation {
        Operation::Queues => ("List the queues", None, shapes.answer::<Queues>(200, "All queues")),
        Operation::CreateQueue => {
            let made = shapes.answer::<QueueName>(201, "The queue is there now");
            ("Make a queue", Some(shapes.of::<NewQueue>()), made)
        }
        Operation::DropQueue => {
            let gone = shapes.answer::<Deleted>(200, "The queue is gone with its jobs");
            ("Remove a queue with its jobs", None, gone)
        }
        Operation::List => {
            ("List the jobs of a queue", None, shapes.answer::<JobStates>(200, "All jobs"))
        }
        Operation::Find => {
            let found = shapes.answer::<Jobs>(200, "The jobs that match");
            ("Find jobs", Some(shapes.of::<Find>()), found)
        }
        Operation::Poll => {
            let job = shapes.answer::<Job>(200, "The job, which has the new state now");
            ("Give the first job that matches a new state", Some(shapes.of::<Poll>()), job)
        }
        Operation::Put => {
            let job = shapes.answer::<Job>(200, "The job");
            ("Make a job", Some(shapes.of::<NewJob>()), job)
        }
        Operation::GetJob => ("Show a job", None, shapes.answer::<Job>(200, "The job")),
        Operation::Delete => ("Delete a job", None, shapes.answer::<Done>(200, "It is gone")),
        Operation::CompareAndSetState => {
            let job = shapes.answer::<Job>(200, "The job, which has the new state now");
            ("Give a job a new state", Some(shapes.of::<Advance>()), job)
        }
        Operation::AppendEvent => {
            let job = shapes.answer::<Job>(200, "The job with the event");
            ("Write an event into the log of a job", Some(shapes.of::<Note>()), job)
        }
    };
    let mut answers = vec![first];
    refusals(operation, default, shapes, &mut answers);
    Description { summary, body, answers }
}

/// Error responses of the operation itself.
fn refusals(operation: Operation, default: bool, shapes: &mut Schemas, answers: &mut Vec<Answer>) {
    let no_queue = !default && !matches!(operation, Operation::Queues | Operation::CreateQueue);
    let no_job = match operation {
        Operation::Poll => Some("No job matches, or there is no such queue"),
        Operation::GetJob
        | Operation::Delete
        | Operation::CompareAndSetState
        | Operation::AppendEvent => Some("There is no such job, or no such queue"),
        _ => no_queue.then_some("There is no such queue"),
    };
    answers.extend(no_job.map(|when| shapes.error(404, when)));
    match operation {
        Operation::CreateQueue => answers.push(shapes.error(409, "There is such a queue already")),
        Operation::CompareAndSetState => {
            answers.push(shapes.answer::<Conflict>(409, "The job has another state"));
        }
        _ => {}
    }
    if let Operation::CreateQueue | Operation::Put = operation {
        let full = "The server has no place for it, or serves as many clients as it may";
        answers.push(shapes.error(503, full));
    }
    let no_space = match operation {
        Operation::AppendEvent => Some("The disk is full, or the log of the job"),
        Operation::CreateQueue
        | Operation::Put
        | Operation::Poll
        | Operation::CompareAndSetState => Some("The disk is full"),
        _ => None,
    };
    answers.extend(no_space.map(|when| shapes.error(507, when)));
}
