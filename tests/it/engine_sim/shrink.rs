//! Of a long sequence of steps that fails, a short one.

use super::world::{Step, World};
use jobcentre::model::id::{ClientId, Ticket};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// Takes the steps in a new world; tells whether they fail.
pub(super) fn take(seed: u64, steps: &[Step], loud: bool) -> bool {
    let go = || {
        let mut world = World::new(seed);
        world.loud = loud;
        for step in steps {
            world.step(step);
            world.engine.check_invariants();
        }
    };
    catch_unwind(AssertUnwindSafe(go)).is_err()
}

/// Whether no place has two clients at a time: an engine may rely on that.
fn is_possible(steps: &[Step]) -> bool {
    let mut there: BTreeMap<u32, ClientId> = BTreeMap::new();
    steps.iter().all(|step| match step {
        Step::Submit(Ticket { client, .. }, _) | Step::Cancel(Ticket { client, .. }) => {
            *there.entry(client.index).or_insert(*client) == *client
        }
        Step::Forget(client) => there.remove(&client.index).is_none_or(|there| there == *client),
        Step::Time(_) | Step::Expire => true,
    })
}

/// Leaves steps out, many at a time and then one by one, as long as the rest still fails.
pub(super) fn shrink(seed: u64, mut steps: Vec<Step>) -> Vec<Step> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let mut size = steps.len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        let before = steps.len();
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..steps.len().min(from + size));
            if is_possible(&fewer) && take(seed, &fewer, false) {
                steps = fewer;
            } else {
                from += size;
            }
        }
        if size > 1 || steps.len() == before {
            size /= 2;
        }
    }
    set_hook(hook);
    steps
}
