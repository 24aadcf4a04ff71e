//! Logs and traces of a process.

use clap::{Args, ValueEnum};
use thiserror::Error;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use crate::traces::{ExporterError, Traces};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What a process tells about itself, as arguments of its command line.
#[derive(Debug, Clone, Args)]
pub struct TelemetryArgs {
    /// Which log lines are written: a level, or `target=level` pairs
    #[arg(long, env = "ESPALIER_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// How log lines look
    #[arg(long, env = "ESPALIER_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: Format,
    /// Where traces are sent (OTLP over gRPC); nowhere if absent, or if the program was built without the feature `otlp`
    #[arg(long, env = "ESPALIER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

/// Why telemetry could not be set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error("`{filter}` is no log filter")]
    Filter {
        /// The text as it was given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// No exporter can be made for the endpoint.
    #[error(transparent)]
    Exporter(#[from] ExporterError),
    /// This process has its telemetry already.
    #[error("telemetry has been set up before")]
    Installed(#[source] TryInitError),
}

/// The process's telemetry; the last spans are sent when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the sending of traces"]
pub struct Telemetry {
    _traces: Option<Traces>,
}

impl Telemetry {
    /// Installs logs on standard error, and traces where an endpoint is given,
    /// for the whole process. Needs a running tokio runtime if it is.
    ///
    /// # Errors
    /// [`TelemetryError`] names the argument that is wrong.
    pub fn install(service: &'static str, args: &TelemetryArgs) -> Result<Self, TelemetryError> {
        let filter = parse_filter(&args.log)?;
        let endpoint = args.otlp_endpoint.as_deref();
        let traces = endpoint.map(|endpoint| Traces::sent_to(endpoint, service)).transpose()?;
        Registry::default()
            .with(traces.as_ref().and_then(Traces::layer))
            .with(filter)
            .with(lines(args.log_format))
            .try_init()
            .map_err(TelemetryError::Installed)?;
        if let Some(endpoint) = endpoint.filter(|_| !cfg!(feature = "otlp")) {
            tracing::warn!(endpoint, "no traces are sent: this program was built without the feature `otlp`");
        }
        Ok(Self { _traces: traces })
    }
}

fn parse_filter(filter: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::builder().parse(filter).map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })
}

fn lines<S>(format: Format) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'span> tracing_subscriber::registry::LookupSpan<'span>,
{
    // A line that cannot be written is lost; to say so would be another.
    let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_is_none_is_quoted() {
        assert!(parse_filter("espalier=debug,warn").is_ok());
        let refusal = parse_filter("espalier=loud").expect_err("no such level");
        assert!(refusal.to_string().contains("`espalier=loud`"));
    }
}
