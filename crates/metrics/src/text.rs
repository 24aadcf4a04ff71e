//! The text that Prometheus reads: its own of version 0.0.4, and OpenMetrics 1.0, which has exemplars.

use std::fmt::{self, Write};
use std::time::UNIX_EPOCH;

use crate::histogram::{Exemplar, HistogramCounts};
use crate::metric::underscored;
use crate::snapshot::{Family, Sample, Snapshot, Value};

/// A form of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// That of Prometheus 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl TextFormat {
    /// The form that a scraper asks for with its header `Accept`.
    pub fn accepted(accept: Option<&str>) -> Self {
        let open = accept.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        if open { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// What the answer's header `Content-Type` says.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A snapshot in a form of the text.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    snapshot: &'a Snapshot,
    format: TextFormat,
}

impl Snapshot {
    /// All metrics as text.
    pub fn text(&self, format: TextFormat) -> Text<'_> {
        Text { snapshot: self, format }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot.families().try_for_each(|family| self.family(family, f))?;
        if self.format == TextFormat::OpenMetrics { f.write_str("# EOF\n") } else { Ok(()) }
    }
}

impl Text<'_> {
    fn family(self, family: &Family, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = family.metric;
        let name = metric.prometheus_name();
        // OpenMetrics knows a counter by its name without `total`.
        let known_as = match self.format {
            TextFormat::OpenMetrics => name.strip_suffix("_total").unwrap_or(&name),
            TextFormat::Prometheus => &name,
        };
        writeln!(f, "# HELP {known_as} {}.", Escaped { text: metric.help, quotes: false })?;
        writeln!(f, "# TYPE {known_as} {}", metric.kind.name())?;
        if let (TextFormat::OpenMetrics, Some(unit)) = (self.format, metric.unit.suffix()) {
            writeln!(f, "# UNIT {known_as} {unit}")?;
        }
        family.samples.iter().try_for_each(|sample| self.sample(&Series { name: &name, family, sample }, f))
    }

    fn sample(self, series: &Series<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &series.sample.value {
            Value::Count(count) => writeln!(f, "{}{} {count}", series.name, series.labels(None)),
            Value::Number(number) => writeln!(f, "{}{} {}", series.name, series.labels(None), Number(*number)),
            Value::Histogram(counts) => self.histogram(series, counts, f),
        }
    }

    fn histogram(self, series: &Series<'_>, counts: &HistogramCounts, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, bounds) = (series.name, counts.bounds.iter().copied().chain([f64::INFINITY]));
        let mut up_to = 0;
        for ((bound, count), exemplar) in bounds.zip(&counts.counts).zip(&counts.exemplars) {
            up_to += count;
            write!(f, "{name}_bucket{} {up_to}", series.labels(Some(bound)))?;
            match exemplar {
                Some(exemplar) if self.format == TextFormat::OpenMetrics => writeln!(f, " {}", WithTrace(exemplar))?,
                _ => f.write_char('\n')?,
            }
        }
        writeln!(f, "{name}_sum{} {}", series.labels(None), Number(counts.sum))?;
        writeln!(f, "{name}_count{} {up_to}", series.labels(None))
    }
}

/// One series, and the name of its metric.
struct Series<'a> {
    name: &'a str,
    family: &'a Family,
    sample: &'a Sample,
}

impl Series<'_> {
    /// The labels in braces, with that of a bucket up to a bound; nothing where there are none.
    fn labels(&self, bound: Option<f64>) -> String {
        let own = self.family.labels(self.sample);
        let mut labels: Vec<String> =
            own.map(|(name, text)| format!("{}=\"{}\"", underscored(name), Escaped { text, quotes: true })).collect();
        labels.extend(bound.map(|bound| format!("le=\"{}\"", Number(bound))));
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
    }
}

/// A number as both forms write it.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            number if number == f64::INFINITY => f.write_str("+Inf"),
            number if number == f64::NEG_INFINITY => f.write_str("-Inf"),
            number if number.is_nan() => f.write_str("NaN"),
            // With a point, so that it is the same text whether it happens to be whole or not.
            number => write!(f, "{number:?}"),
        }
    }
}

/// Text without line breaks, and without quotes where it stands in quotes.
struct Escaped<'a> {
    text: &'a str,
    quotes: bool,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.chars().try_for_each(|character| match character {
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            '"' if self.quotes => f.write_str("\\\""),
            other => f.write_char(other),
        })
    }
}

/// An exemplar as it follows a bucket.
struct WithTrace<'a>(&'a Exemplar);

impl fmt::Display for WithTrace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exemplar { value, at, trace } = self.0;
        f.write_str("# {trace_id=\"")?;
        trace.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "\"}} {}", Number(*value))?;
        // A clock that is before its time tells nothing.
        at.duration_since(UNIX_EPOCH).map_or(Ok(()), |since| write!(f, " {:.3}", since.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::histogram::Histogram;
    use crate::metric::{Kind, Metric, Unit};

    static REQUESTS: Metric = Metric {
        name: "espalier.requests",
        kind: Kind::Counter,
        unit: Unit::Things("request"),
        labels: &["target", "end"],
        help: "Requests that are over",
    };

    static TIME: Metric = Metric {
        name: "a.time",
        kind: Kind::Histogram(&[0.5, 1.0]),
        unit: Unit::Seconds,
        labels: &["gen_ai.request.model"],
        help: "How long",
    };

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.tell(&REQUESTS, &["a\"\\\nb", ""], 3_u64);
        let histogram = Histogram::of(&TIME);
        histogram.add(0.25);
        histogram.add(2.0);
        let at = UNIX_EPOCH + Duration::from_millis(1_500);
        histogram.add_of_trace(Exemplar { value: 0.75, at, trace: [0xab; 16] });
        snapshot.tell(&TIME, &["m"], &histogram);
        snapshot
    }

    #[test]
    fn prometheus_reads_it() {
        let expected = r#"# HELP a_time_seconds How long.
# TYPE a_time_seconds histogram
a_time_seconds_bucket{gen_ai_request_model="m",le="0.5"} 1
a_time_seconds_bucket{gen_ai_request_model="m",le="1.0"} 2
a_time_seconds_bucket{gen_ai_request_model="m",le="+Inf"} 3
a_time_seconds_sum{gen_ai_request_model="m"} 3.0
a_time_seconds_count{gen_ai_request_model="m"} 3
# HELP espalier_requests_total Requests that are over.
# TYPE espalier_requests_total counter
espalier_requests_total{target="a\"\\\nb"} 3
"#;
        assert_eq!(snapshot().text(TextFormat::Prometheus).to_string(), expected);
    }

    #[test]
    fn openmetrics_has_units_exemplars_and_an_end() {
        let text = snapshot().text(TextFormat::OpenMetrics).to_string();
        let traced = format!("le=\"1.0\"}} 2 # {{trace_id=\"{}\"}} 0.75 1.500\n", "ab".repeat(16));
        for part in ["# UNIT a_time_seconds seconds\n", "# TYPE espalier_requests counter\n", &traced] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.ends_with("espalier_requests_total{target=\"a\\\"\\\\\\nb\"} 3\n# EOF\n"), "{text}");
    }

    #[test]
    fn a_scraper_gets_what_it_asks_for() {
        assert_eq!(TextFormat::accepted(None), TextFormat::Prometheus);
        let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1";
        assert_eq!(TextFormat::accepted(Some(accept)), TextFormat::OpenMetrics);
    }
}
