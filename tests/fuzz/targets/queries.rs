//! Any text as an expression of a query: no panic, no leftover in SQLite, no row both matches an
//! expression and its negation, and a literal state is what SQLite takes it for.

#![no_main]

use jobcentre::model::event::EventLog;
use jobcentre::model::id::JobId;
use jobcentre::model::job::Encoding;
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::row::{Row, Rows};
use jobcentre::query::{Evaluator, QueryTask};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Questions until a query is stopped.
const PATIENCE: u64 = 100_000;

struct Stage {
    evaluator: Evaluator,
    asked: Arc<AtomicU64>,
    rows: Rows,
}

impl Stage {
    fn new() -> Self {
        let asked = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&asked);
        let stop = move || own.fetch_add(1, Ordering::Relaxed) >= PATIENCE;
        let row = |id: u64, payload: &str, state: &str| Row {
            id: JobId(id),
            version: 1,
            queue: Arc::from(*b"q"),
            priority: None,
            encoding: Encoding::Json,
            payload: payload.as_bytes().into(),
            state: state.as_bytes().into(),
            events: EventLog::default(),
            modified: id,
        };
        let deep = "[".repeat(1500) + &"]".repeat(1500);
        let rows =
            [row(1, "{\"a\":\"b\"}", "null"), row(2, &deep, "[\"A\"]"), row(3, "5", "\"x\"")];
        Self {
            evaluator: Evaluator::new(Arc::new(stop)).expect("SQLite can be set up"),
            asked,
            rows: rows.into_iter().map(|row| (row.key(), Arc::new(row))).collect(),
        }
    }

    fn run(&mut self, options: Vec<Term>) -> Result<Vec<u64>, ()> {
        self.asked.store(0, Ordering::Relaxed);
        let work = QueryTask {
            rows: self.rows.clone(),
            query: Arc::new(Query { terms: options }),
            limit: None,
        };
        let found = self.evaluator.run(&work).map_err(drop)?;
        Ok(found.iter().map(|row| row.id.0).collect())
    }
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::new(Stage::new());
}

fuzz_target!(|data: &str| {
    let text = |text: &str| Expr::Text(text.into());
    let term = |op, left, right| Term { op, left, right };
    STAGE.with_borrow_mut(|stage| {
        let query = vec![term(Op::Is, text(data), Expr::Null)];
        let state = Query { terms: vec![term(Op::Is, text("state"), text(data))] };
        let found = stage.run(query);
        if let Some((literal, _)) = state.state_literal() {
            let same = stage.rows.values().filter(|row| *row.state == *literal);
            let same: Vec<u64> = same.map(|row| row.id.0).collect();
            assert_eq!(stage.run(state.terms), Ok(same), "a literal means something else");
        }
        let globs = vec![term(Op::Glob, text("state"), Expr::Literal(data.into()))];
        assert!(stage.run(globs).is_ok() || data.contains('\0'), "a text is a text");
        // A value is NULL or it is not. Where SQLite stumbles it is neither.
        if let (Ok(null), Ok(not)) =
            (found, stage.run(vec![term(Op::IsNot, text(data), Expr::Null)]))
        {
            assert!(null.iter().all(|id| !not.contains(id)), "the term was broken out of");
        }
        // And nothing of it is left.
        let all = stage.run(vec![term(Op::Greater, text("id"), Expr::Number("0".into()))]);
        assert_eq!(all, Ok(vec![1, 2, 3]));
    });
});
