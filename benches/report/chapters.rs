//! The groups of scenarios: the chapters of the report, in its order.

use serde::Serialize;

/// Where a scenario stands in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Chapter {
    Cycle,
    Payload,
    Calls,
    Backlog,
    Memory,
    Connections,
    Tls,
    Latency,
    Queues,
    Packets,
    Beanstalkd,
    Lateness,
    Passes,
    Durable,
    Http,
    Workers,
    Processor,
}

impl Chapter {
    pub(crate) const ALL: [Self; 17] = [
        Self::Cycle,
        Self::Payload,
        Self::Calls,
        Self::Backlog,
        Self::Memory,
        Self::Connections,
        Self::Tls,
        Self::Latency,
        Self::Queues,
        Self::Packets,
        Self::Beanstalkd,
        Self::Lateness,
        Self::Passes,
        Self::Durable,
        Self::Http,
        Self::Workers,
        Self::Processor,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Cycle => "Put, get, delete: jobs of 100 B",
            Self::Payload => "Jobs of 1,000 B",
            Self::Calls => "System calls",
            Self::Backlog => "Growth of the backlog",
            Self::Memory => "Memory of waiting jobs",
            Self::Connections => "Memory of connections",
            Self::Tls => "TLS",
            Self::Latency => "Latency: waiting workers, and a fixed rate",
            Self::Queues => "Naming many queues",
            Self::Packets => "The networked priority queue, beside Job Centre",
            Self::Beanstalkd => "The listener for clients of beanstalkd, beside beanstalkd",
            Self::Lateness => "Lateness",
            Self::Passes => "The longest pass of the loop, and a client beside the load",
            Self::Durable => "Durability",
            Self::Http => "HTTP and Jobq",
            Self::Workers => "LightJQ: workers that are called",
            Self::Processor => "The processor",
        }
    }
}
