//! Actions of the server that a verb begins and waits for. SIGINT and SIGTERM cancel the one that
//! runs.

use super::failure::{Exit, Failure, Outcome};
use super::interrupts::Interrupts;
use super::jobs::State;
use super::line_client::LineClient;
use super::local::NAME;
use super::record::{Record, quoted};
use super::request::Request;
use super::units::jobs;
use std::time::Duration;

/// How often it is asked how far an action is.
const POLL: Duration = Duration::from_millis(20);

/// How long the answer to a cancellation may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Why an action is not found.
pub(super) const NO_ACTION: &str = "there is no action of this number: the last 1,000 since the \
                                    start of the server are known";

/// Begins actions, one after the other.
#[derive(Debug)]
pub(super) struct ActionClient<'a> {
    client: &'a mut LineClient,
    interrupts: Interrupts,
}

/// Which jobs an action is about: a queue, and a filter of the API as JSON.
pub(super) type Target<'a> = (&'a str, &'a str);

/// What is done, by its members of the request: names, and values as JSON.
pub(super) type Members<'a> = &'a [(&'a str, &'a str)];

impl<'a> ActionClient<'a> {
    /// Fails if this client may not see how far an action is.
    pub(super) fn new(client: &'a mut LineClient) -> Outcome<Self> {
        client.ask(Request::new("actions").number("limit", 1), NO_ACTION)?;
        let interrupts = Interrupts::install()?;
        interrupts.disarm();
        Ok(Self { client, interrupts })
    }

    /// Does something to all jobs that are chosen. Returns how many it were.
    pub(super) fn act(
        &mut self,
        (queue, filter): Target<'_>,
        members: Members<'_>,
        is_dry_run: bool,
    ) -> Outcome<u64> {
        let request = Request::new("act").text("queue", queue).json("where", filter);
        let request = request.json("dry_run", is_dry_run.to_string());
        let add = |request: Request, (name, json): &(&str, &str)| request.json(name, json);
        let request = members.iter().fold(request, add);
        self.interrupts.arm();
        let action = self.client.ask(request, "nothing is known of this queue");
        let ended = action.and_then(|action| self.wait(action, is_dry_run));
        self.interrupts.disarm();
        let action = ended?;
        let count = counted(&action, is_dry_run);
        if let Some(error) = action.text("error") {
            return Err(Failure::refused(format!("{error} (it was done for {})", jobs(count))));
        }
        Ok(count)
    }

    /// Waits for the end of an action.
    fn wait(&mut self, mut action: Record, is_dry_run: bool) -> Outcome<Record> {
        while !has_ended(&action) {
            let has_signal = self.interrupts.wait(POLL);
            if has_signal.map_err(|error| Failure::failed(format!("poll: {error}")))? {
                return Err(self.cancel(&action, is_dry_run, false));
            }
            let request = Request::new("actions").json("action", id_of(&action));
            match self.client.ask_unless(request, NO_ACTION, &self.interrupts)? {
                Some(answer) => action = answer,
                None => return Err(self.cancel(&action, is_dry_run, true)),
            }
        }
        Ok(action)
    }

    /// Cancels an action, and says what has become of it. `owes`: the answer to an earlier
    /// request is still to come.
    fn cancel(&mut self, action: &Record, is_dry_run: bool, owes: bool) -> Failure {
        let id = id_of(action);
        let by_hand = format!("{NAME} actions cancel {id}");
        // A second signal ends the process at once.
        super::print_note(&format!("action {id} is being cancelled, as does: {by_hand}"));
        let sentence = match self.end(&id, owes) {
            Ok(action) => {
                let what = match action.text("state").as_deref() {
                    Some("cancelled") => "was cancelled",
                    _ => "had ended",
                };
                let done = jobs(counted(&action, is_dry_run));
                let done = if is_dry_run {
                    "nothing is changed".to_owned()
                } else {
                    format!("it is done for {done}, and stays so")
                };
                format!("interrupted: action {id} {what}; {done}")
            }
            Err(failure) => {
                let why = failure.sentence;
                format!("interrupted, and action {id} may go on ({why}): {by_hand}")
            }
        };
        Failure::new(Exit::Interrupted, sentence)
    }

    fn end(&mut self, id: &str, owes: bool) -> Outcome<Record> {
        self.client.hurry(CANCEL_TIMEOUT);
        self.client.send(&cancellation(id).line())?;
        if owes {
            self.client.receive()?;
        }
        self.client.answered(NO_ACTION)
    }
}

/// Ends an action early.
pub(super) fn cancellation(id: &str) -> Request {
    Request::new("cancel").json("action", id)
}

fn id_of(action: &Record) -> String {
    action.at("id").unwrap_or_default()
}

fn has_ended(action: &Record) -> bool {
    action.get("ended_at").is_some_and(|at| at != "null")
}

/// How many jobs an action has changed, or would change.
fn counted(action: &Record, is_dry_run: bool) -> u64 {
    let field = if is_dry_run && action.number("done") == Some(0) { "matched" } else { "done" };
    action.number(field).unwrap_or(0)
}

/// The filter for some states.
fn of_states(states: &[State]) -> String {
    let names: Vec<String> = states.iter().map(|state| quoted(state.name())).collect();
    format!("{{\"states\":[{}]}}", names.join(","))
}

/// The filter for a query.
pub(super) fn of_query(query: &str) -> String {
    format!("{{\"query\":{query}}}")
}

/// Does something to the jobs in these states. Returns how many it were.
pub(super) fn act_on_states(
    client: &mut LineClient,
    (queue, states): (&str, &[State]),
    members: Members<'_>,
) -> Outcome<u64> {
    ActionClient::new(client)?.act((queue, &of_states(states)), members, false)
}

/// The same by one request, which no signal cancels, where this client may not see how far an
/// action is, and to states that the request refuses.
pub(super) fn act_or_request(
    client: &mut LineClient,
    (queue, states): (&str, &[State]),
    members: Members<'_>,
    request: impl FnOnce(&mut LineClient) -> Outcome<u64>,
) -> Outcome<u64> {
    if !states.contains(&State::Reserved)
        && let Ok(mut actions) = ActionClient::new(client)
    {
        return actions.act((queue, &of_states(states)), members, false);
    }
    request(client)
}

/// Does something to the jobs that match a query.
pub(super) fn act_on_query(
    client: &mut LineClient,
    (queue, query): (&str, &str),
    members: Members<'_>,
    is_dry_run: bool,
) -> Outcome<u64> {
    ActionClient::new(client)?.act((queue, &of_query(query)), members, is_dry_run)
}
