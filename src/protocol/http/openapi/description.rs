//! Descriptions of operations, and the schemas that they name.

use utoipa::ToSchema;
use utoipa::openapi::{Ref, RefOr, Schema};

/// The body of a response.
pub(in crate::protocol::http) enum Content {
    Json(RefOr<Schema>),
    /// MessagePack of this schema.
    Packed(RefOr<Schema>),
    Nothing,
    /// Text of this media type.
    Text(&'static str),
}

/// A response of an operation.
pub(in crate::protocol::http) struct Answer {
    pub(in crate::protocol::http) status: u16,
    /// The condition of the response, as a sentence.
    pub(in crate::protocol::http) when: &'static str,
    pub(in crate::protocol::http) content: Content,
}

/// The description of an operation, besides what is common to all.
pub(in crate::protocol::http) struct Description {
    /// What the operation does, in one line.
    pub(in crate::protocol::http) summary: &'static str,
    /// The schema of the request body.
    pub(in crate::protocol::http) body: Option<RefOr<Schema>>,
    pub(in crate::protocol::http) answers: Vec<Answer>,
}

/// An error, as every operation answers it.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is a shape")]
struct Error {
    /// What is wrong, for people.
    error: String,
}

/// The named schemas of the document.
#[derive(Default)]
pub(in crate::protocol::http) struct Schemas(Vec<(String, RefOr<Schema>)>);

impl Schemas {
    /// A reference to the schema of a type.
    pub(in crate::protocol::http) fn of<T: ToSchema>(&mut self) -> RefOr<Schema> {
        self.0.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.0);
        Ref::from_schema_name(T::name()).into()
    }

    /// A reference to a schema that is not made from a type.
    pub(in crate::protocol::http) fn add(
        &mut self,
        name: &str,
        shape: RefOr<Schema>,
    ) -> RefOr<Schema> {
        self.0.push((name.to_owned(), shape));
        Ref::from_schema_name(name).into()
    }

    /// A JSON response.
    pub(in crate::protocol::http) fn answer<T: ToSchema>(
        &mut self,
        status: u16,
        when: &'static str,
    ) -> Answer {
        Answer { status, when, content: Content::Json(self.of::<T>()) }
    }

    /// All of them, with their names.
    pub(super) fn into_named(self) -> Vec<(String, RefOr<Schema>)> {
        self.0
    }

    /// An error response.
    pub(in crate::protocol::http) fn error(&mut self, status: u16, when: &'static str) -> Answer {
        self.answer::<Error>(status, when)
    }
}
