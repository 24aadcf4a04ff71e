//! What every service needs and none should write twice: a listener that says
//! in one sentence why it cannot be had, TLS, health and reflection, a graceful end,
//! deadlines that hold for streams too, channels with named limits, messages that
//! leave together, amounts of
//! memory, counts of what is there, traces that follow a request through all services, and a port for scrapers and probes.
//!
//! It knows nothing of models, trees or the messages of any service.

mod chain;
mod coalesce;
mod connect;
mod connections;
mod deadline;
mod deadline_layer;
mod export;
mod faults;
mod follow;
mod gauge;
mod health;
mod incoming;
mod memory;
mod monitor;
mod monitor_port;
mod probe;
mod program;
mod propagation;
mod pulse;
mod reach;
mod said;
mod seat;
mod serve;
mod shares;
mod shutdown;
mod telemetry;
#[cfg(test)]
mod testing;
mod tls;
mod tls_args;
mod wire;
mod workplace;

pub use chain::chain;
pub use connect::{ConnectError, Dialer, Line, channel};
pub use connections::Connections;
pub use deadline::{Deadline, DeadlineError};
pub use deadline_layer::{DeadlineLayer, DeadlineService};
pub use export::ExporterError;
pub use faults::Faults;
pub use follow::{Followed, Seen, follow};
pub use gauge::{Gauge, Present};
pub use health::is_serving;
pub use incoming::CallerAddress;
pub use memory::{Bytes, FreeMemoryUnknown, MemoryBudget, NotABudget, NotBytes};
pub use monitor::{Answer, Monitor, Monitored, Question, Standing};
pub use monitor_port::MonitorArgs;
pub use probe::probe;
pub use program::Program;
pub use propagation::{current_trace, outgoing, rpc_span};
pub use pulse::{Beat, Pulse};
pub use said::{failed, ready};
pub use seat::{Asker, Seat};
pub use serve::{Bound, Drain, DrainArgs, ServeError, bind};
pub use shares::{Ask, Shares};
pub use shutdown::{ShutdownError, signal};
pub use telemetry::{Format, Telemetry, TelemetryArgs, TelemetryError};
pub use tls::{ClientTls, IdentityFiles, Inspected, Role, ServerTls, TlsError, TlsFiles, inspect};
pub use tls_args::{CallerTlsArgs, TlsArgs};
pub use wire::Duplex;
pub use workplace::Workplace;
