//! Logs and traces of a process.

use clap::{Args, ValueEnum};
use thiserror::Error;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use crate::export::{Destination, Export, ExporterError};
use crate::monitor::Monitor;
use crate::program::Program;

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
    /// Where traces and metrics are sent (OTLP over gRPC); nowhere if absent, or if the program was built without the
    /// feature `otlp`
    #[arg(long, env = "ESPALIER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// The share of requests that are traced, from 0 to 1; those that come with a trace are traced if that is
    #[arg(long, env = "ESPALIER_TRACE_RATIO", default_value_t = TRACE_RATIO, value_name = "SHARE", value_parser = share)]
    pub trace_ratio: f64,
}

/// One of twenty: what the rest would tell is in the metrics.
const TRACE_RATIO: f64 = 0.05;

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(format!("{value} is not between 0 and 1")) }
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

/// The process's telemetry.
#[derive(Debug)]
#[must_use = "what was not sent yet is lost unless it is ended"]
pub struct Telemetry {
    export: Option<Export>,
    monitor: Monitor,
}

impl Telemetry {
    /// Installs logs on standard error, and has traces and metrics sent where an endpoint is given, for the whole process.
    /// Needs a running tokio runtime if it is.
    ///
    /// # Errors
    /// [`TelemetryError`] names the argument that is wrong.
    pub fn install(program: Program, args: &TelemetryArgs) -> Result<Self, TelemetryError> {
        let filter = parse_filter(&args.log)?;
        let monitor = Monitor::new(program);
        let to = |endpoint| Destination { endpoint, program, trace_ratio: args.trace_ratio };
        let endpoint = args.otlp_endpoint.as_deref();
        let export = endpoint.map(|endpoint| Export::begin(&to(endpoint), &monitor)).transpose()?;
        Registry::default()
            .with(export.as_ref().and_then(Export::layer))
            .with(lines(args.log_format).with_filter(filter))
            .try_init()
            .map_err(TelemetryError::Installed)?;
        if let Some(endpoint) = endpoint.filter(|_| !cfg!(feature = "otlp")) {
            tracing::warn!(endpoint, "nothing is sent: this program was built without the feature `otlp`");
        }
        Ok(Self { export, monitor })
    }

    /// What the process tells those who watch it.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Sends what was not sent yet. Needs the runtime that it was installed in.
    pub async fn end(self) {
        if let Some(export) = self.export {
            export.end().await;
        }
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
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_filter_that_is_none_is_quoted() {
        assert!(parse_filter("espalier=debug,warn").is_ok());
        let refusal = parse_filter("espalier=loud").expect_err("no such level");
        assert!(refusal.to_string().contains("`espalier=loud`"));
    }

    #[test]
    fn a_share_is_between_nothing_and_all() {
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(share("1.5").unwrap_err(), "1.5 is not between 0 and 1");
        assert_eq!(share("NaN").unwrap_err(), "NaN is not between 0 and 1");
        assert_eq!(share("many").unwrap_err(), "`many` is no number");
    }
}
