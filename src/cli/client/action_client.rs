//! Actions of the server that a verb begins and waits for. SIGINT and SIGTERM cancel the one that
//! runs.

use super::connection::Server;
use super::failure::{Exit, Failure, Outcome};
use super::http_client::HttpClient;
use super::interrupts::Interrupts;
use super::jobs::State;
use super::local::NAME;
use super::record::{Record, quoted};
use super::units::jobs;
use std::time::Duration;

/// How often it is asked how far an action is.
const POLL: Duration = Duration::from_millis(20);

/// How long it may take to find out whether actions can be reached: where they cannot, there is
/// another way.
const REACH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the answer to a cancellation may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Begins actions, one after the other.
#[derive(Debug)]
pub(super) struct ActionClient<'a> {
    http: HttpClient<'a>,
    interrupts: Interrupts,
}

/// Which jobs an action is about: a queue, and a filter of the API as JSON.
pub(super) type Target<'a> = (&'a str, &'a str);

impl<'a> ActionClient<'a> {
    pub(super) fn new(server: &'a Server) -> Outcome<Self> {
        let http = HttpClient::new(server)?;
        let interrupts = Interrupts::install()?;
        interrupts.disarm();
        Ok(Self { http, interrupts })
    }

    /// The same, if this client may and can see how far an action is.
    pub(super) fn reach(server: &'a Server) -> Option<Self> {
        let client = Self::new(server).ok()?;
        client.http.within(REACH_TIMEOUT).client().ask("GET", "/actions?limit=1", None).ok()?;
        Some(client)
    }

    /// Does something to all jobs that are chosen. `rest` are the members of the request besides.
    /// Returns how many it were.
    pub(super) fn act(
        &self,
        (queue, filter): Target<'_>,
        rest: &str,
        is_dry_run: bool,
    ) -> Outcome<u64> {
        let queue = quoted(queue);
        let body =
            format!("{{\"queue\":{queue},\"where\":{filter},\"dry_run\":{is_dry_run},{rest}}}");
        self.interrupts.arm();
        let action = self.http.ask("POST", "/actions", Some(&body));
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
    fn wait(&self, mut action: Record, is_dry_run: bool) -> Outcome<Record> {
        let path = format!("/actions/{}", action.at("id").unwrap_or_default());
        while !has_ended(&action) {
            let has_signal = self.interrupts.wait(POLL);
            if has_signal.map_err(|error| Failure::failed(format!("poll: {error}")))? {
                return Err(self.cancel(&action, is_dry_run));
            }
            action = match self.http.ask_unless("GET", &path, &self.interrupts) {
                Err(failure) if failure.exit == Exit::Interrupted => {
                    return Err(self.cancel(&action, is_dry_run));
                }
                answer => answer?,
            };
        }
        Ok(action)
    }

    /// Cancels an action, and says what has become of it.
    fn cancel(&self, action: &Record, is_dry_run: bool) -> Failure {
        let id = action.at("id").unwrap_or_default();
        let by_hand = format!("{NAME} actions cancel {id}");
        // A second signal ends the process at once.
        super::print_note(&format!("action {id} is being cancelled, as does: {by_hand}"));
        let quick = self.http.within(CANCEL_TIMEOUT);
        let answer = quick.client().ask("DELETE", &format!("/actions/{id}"), None);
        let sentence = match answer {
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
}

fn has_ended(action: &Record) -> bool {
    action.get("ended_at").is_some_and(|at| at != "null")
}

/// How many jobs an action has changed, or would change.
fn counted(action: &Record, is_dry_run: bool) -> u64 {
    let field = if is_dry_run && action.number("done") == Some(0) { "matched" } else { "done" };
    action.number(field).unwrap_or(0)
}

/// The filter for a query.
pub(super) fn of_query(query: &str) -> String {
    format!("{{\"query\":{query}}}")
}

/// Does something to the jobs in these states. Returns how many it were.
pub(super) fn act_on_states(
    actions: &ActionClient<'_>,
    (queue, states): (&str, &[State]),
    rest: &str,
) -> Outcome<u64> {
    let names: Vec<String> = states.iter().map(|state| quoted(state.name())).collect();
    actions.act((queue, &format!("{{\"states\":[{}]}}", names.join(","))), rest, false)
}

/// The same by a line request, which no signal cancels, where actions cannot be reached, and to
/// states that the server refuses.
pub(super) fn act_or_request(
    server: &Server,
    (queue, states): (&str, &[State]),
    rest: &str,
    request: impl FnOnce() -> Outcome<u64>,
) -> Outcome<u64> {
    match ActionClient::reach(server) {
        Some(actions) if !states.contains(&State::Reserved) => {
            act_on_states(&actions, (queue, states), rest)
        }
        _ => request(),
    }
}

/// Does something to the jobs that match a query.
pub(super) fn act_on_query(
    server: &Server,
    (queue, query): (&str, &str),
    rest: &str,
    is_dry_run: bool,
) -> Outcome<u64> {
    ActionClient::new(server)?.act((queue, &of_query(query)), rest, is_dry_run)
}
