//! The oracle: a list of jobs and a list of workers, searched from end to end.

use serde_json::{Value as Json, json};

const TICK: u64 = 3_000;
const PERIOD: u64 = 3 * TICK;

struct Job {
    name: String,
    queue: String,
    priority: u64,
    number: u64,
    held: Option<Held>,
}

/// How a job is held, by whomever.
struct Held {
    since: u64,
    /// Its place among leases that begin at the same time.
    armed: u64,
    progress: Option<f64>,
}

struct Worker {
    name: String,
    queue: String,
    busy: bool,
    seen: u64,
    /// Its place in the line, if it is idle, and whether it has asked.
    place: u64,
    asked: bool,
}

pub(super) struct Model {
    now: u64,
    next_tick: u64,
    count: u64,
    jobs: Vec<Job>,
    workers: Vec<Worker>,
    assignments: Vec<String>,
    notices: Vec<String>,
    pub(super) leases_over: u64,
}

impl Model {
    pub(super) fn new(now: u64) -> Self {
        Self {
            now,
            next_tick: now + TICK,
            count: 0,
            jobs: Vec::new(),
            workers: Vec::new(),
            assignments: Vec::new(),
            notices: Vec::new(),
            leases_over: 0,
        }
    }

    fn count(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(super) fn queue_of(&self, name: &str) -> Option<&str> {
        self.jobs.iter().find(|job| job.name == name).map(|job| &*job.queue)
    }

    pub(super) fn take_told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.assignments)
    }

    pub(super) fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Matches idle workers and jobs.
    fn serve(&mut self, queue: &str) {
        loop {
            let ready = self.jobs.iter_mut().filter(|job| job.queue == queue && job.held.is_none());
            let job = ready.min_by_key(|job| (job.priority, job.number));
            let idle = self.workers.iter_mut().filter(|worker| worker.queue == queue);
            let idle = idle.filter(|worker| !worker.busy && worker.asked);
            let (Some(job), Some(worker)) = (job, idle.min_by_key(|worker| worker.place)) else {
                return;
            };
            (worker.busy, worker.asked) = (true, false);
            self.assignments.push(format!("{} {}", worker.name, job.name));
            self.count += 1;
            job.held = Some(Held { since: self.now, armed: self.count, progress: None });
        }
    }

    /// All idle workers of a queue ask.
    fn dispatch(&mut self, queue: &str) {
        let mut idle: Vec<usize> = (0..self.workers.len())
            .filter(|&number| {
                let worker = &self.workers[number];
                worker.queue == queue && !worker.busy && !worker.asked
            })
            .collect();
        idle.sort_by_key(|&number| self.workers[number].place);
        for number in idle {
            self.workers[number].place = self.count();
            self.workers[number].asked = true;
            self.serve(queue);
        }
    }

    fn dispatch_all(&mut self) {
        for queue in ["q", "p"] {
            self.dispatch(queue);
        }
    }

    fn see(&mut self, name: &str, queue: &str, busy: bool) {
        let (place, now) = (self.count(), self.now);
        if let Some(worker) = self.workers.iter_mut().find(|worker| worker.name == name) {
            worker.seen = now;
            if worker.queue == queue && worker.busy == busy {
                return;
            }
        }
        let number = self.workers.iter().position(|worker| worker.name == name);
        let worker =
            Worker { name: name.into(), queue: queue.into(), busy, seen: now, place, asked: false };
        match number {
            Some(number) => self.workers[number] = worker,
            None => self.workers.push(worker),
        }
    }

    pub(super) fn receive(&mut self, message: &str) {
        let words: Vec<&str> = message.split(' ').collect();
        match words[..] {
            ["tick"] => {
                self.expire();
                self.dispatch_all();
            }
            ["add", queue, name, priority] => {
                if self.queue_of(name).is_some() {
                    self.notices.push(format!("add_job: there is a job '{name}' already"));
                } else {
                    let number = self.count();
                    let priority = priority.parse().unwrap();
                    let (name, queue) = (name.into(), queue.into());
                    self.jobs.push(Job { name, queue, priority, number, held: None });
                }
                self.serve(queue);
                self.dispatch(queue);
            }
            ["idle", queue, worker] => {
                self.see(worker, queue, false);
                self.dispatch(queue);
            }
            ["idle", queue, worker, _] => self.see(worker, queue, false),
            ["accept" | "busy", queue, worker, job] => {
                self.see(worker, queue, true);
                let verb = if words[0] == "accept" { "job_accepted" } else { "worker_busy" };
                self.proceed(verb, queue, job, None);
            }
            ["progress", queue, worker, job, part] => {
                self.see(worker, queue, true);
                self.proceed("worker_progress", queue, job, part.parse().ok());
            }
            ["finish", queue, worker, job] => {
                self.see(worker, queue, false);
                if self.held("job_finished", queue, job).is_some() {
                    self.jobs.retain(|other| other.name != job);
                }
                self.dispatch(queue);
            }
            ["del", queue, name] => {
                let count = self.jobs.len();
                self.jobs.retain(|job| job.name != name || job.queue != queue);
                if self.jobs.len() == count {
                    self.notices.push(format!("del_job: there is no job '{name}'"));
                }
            }
            _ => panic!("what is {message}?"),
        }
    }

    /// The job that is meant, if it is held.
    fn held(&mut self, verb: &str, queue: &str, name: &str) -> Option<&mut Job> {
        let meant = |job: &&mut Job| job.name == name && job.queue == queue;
        let Some(job) = self.jobs.iter_mut().find(meant) else {
            self.notices.push(format!("{verb}: there is no job '{name}'"));
            return None;
        };
        if job.held.is_none() {
            self.notices.push(format!("{verb}: job '{name}' is not dispatched"));
            return None;
        }
        Some(job)
    }

    fn proceed(&mut self, verb: &str, queue: &str, name: &str, part: Option<f64>) {
        let (since, armed) = (self.now, self.count());
        if let Some(job) = self.held(verb, queue, name) {
            let before = job.held.as_ref().and_then(|held| held.progress);
            let progress = Some(part.or(before).unwrap_or(0.0));
            job.held = Some(Held { since, armed, progress });
        }
    }

    /// Workers that have sent nothing for the period are removed.
    fn expire(&mut self) {
        let now = self.now;
        let (old, young) = std::mem::take(&mut self.workers)
            .into_iter()
            .partition(|worker: &Worker| worker.seen + PERIOD <= now);
        self.workers = young;
        for Worker { name, .. } in old {
            self.notices.push(format!("worker '{name}' of"));
        }
    }

    /// What the clock brings at this moment.
    fn look_at_clock(&mut self) {
        let now = self.now;
        self.expire();
        loop {
            let over =
                |job: &&mut Job| job.held.as_ref().is_some_and(|held| held.since + PERIOD <= now);
            let lease = |job: &&mut Job| job.held.as_ref().map(|held| (held.since, held.armed));
            let Some(job) = self.jobs.iter_mut().filter(over).min_by_key(lease) else { break };
            job.held = None;
            self.leases_over += 1;
            let queue = job.queue.clone();
            self.serve(&queue);
        }
        if now >= self.next_tick {
            self.next_tick += TICK;
            self.dispatch_all();
        }
    }

    /// So much time passes.
    pub(super) fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += 1;
            self.look_at_clock();
        }
    }

    /// The program ends, and begins again after so long.
    pub(super) fn restart(&mut self, ms: u64) {
        self.now += ms;
        self.next_tick = self.now + TICK;
        self.workers.clear();
        for job in &mut self.jobs {
            job.held = job.held.take().filter(|held| held.progress.is_some());
        }
        self.look_at_clock();
    }

    /// What `GET /processor/{queue}` says.
    pub(super) fn page(&self, queue: &str) -> Json {
        let time = |ms: u64| {
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
            humantime::format_rfc3339_millis(at).to_string()
        };
        let mut ready: Vec<&Job> =
            self.jobs.iter().filter(|job| job.queue == queue && job.held.is_none()).collect();
        ready.sort_by_key(|job| (job.priority, job.number));
        let queued =
            |job: &Job| json!({"queue_name": queue, "uuid": job.name, "priority": job.priority});
        let mut held: Vec<(&Job, &Held)> = self
            .jobs
            .iter()
            .filter(|job| job.queue == queue)
            .filter_map(|job| Some((job, job.held.as_ref()?)))
            .collect();
        held.sort_by_key(|(job, held)| (held.since, job.number));
        let (processing, dispatched): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|(_, held)| held.progress.is_some());
        let since = |field: &str, (job, held): &(&Job, &Held)| {
            let at = time(held.since);
            json!({"uuid": job.name, field: at})
        };
        let progress = |(job, held): &(&Job, &Held)| {
            let part = held.progress.filter(|&part| part > 0.0);
            json!({"uuid": job.name, "progress": part.map_or_else(|| json!(0), |part| json!(part))})
        };
        let here = || self.workers.iter().filter(|worker| worker.queue == queue);
        let names = |busy: bool| {
            let mut names: Vec<_> =
                here().filter(|worker| worker.busy == busy).map(|it| &it.name).collect();
            names.sort();
            json!(names)
        };
        let mut seen: Vec<_> = here()
            .map(|worker| json!({"uuid": worker.name, "last_seen": time(worker.seen)}))
            .collect();
        seen.sort_by_key(|worker| worker["uuid"].to_string());
        json!({
            "jobs_queued": ready.into_iter().map(queued).collect::<Json>(),
            "jobs_dispatched":
                dispatched.iter().map(|job| since("dispatched_at", job)).collect::<Json>(),
            "jobs_processing":
                processing.iter().map(|job| since("last_seen", job)).collect::<Json>(),
            "jobs_progress": processing.iter().map(progress).collect::<Json>(),
            "workers_last_seen": seen,
            "workers_idle": names(false),
            "workers_busy": names(true),
        })
    }
}
