//! The message that OpenTelemetry's collectors take.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1 as wire;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::histogram::{Exemplar, HistogramCounts};
use crate::metric::Kind;
use crate::snapshot::{Family, Sample, Snapshot, Value};

/// Who reports: attributes of its resource, like `service.name`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reporter {
    /// Names and values.
    pub attributes: Vec<(String, String)>,
}

/// The time that counts are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When they were 0.
    pub from: SystemTime,
    /// When they were read.
    pub to: SystemTime,
}

/// All metrics of a snapshot, as counts since the start.
pub fn export(snapshot: &Snapshot, reporter: &Reporter, span: Span) -> ExportMetricsServiceRequest {
    let attributes = reporter.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let metrics = snapshot.families().map(|family| metric(family, span)).collect();
    let scope = InstrumentationScope { name: "espalier".to_owned(), ..InstrumentationScope::default() };
    ExportMetricsServiceRequest {
        resource_metrics: vec![wire::ResourceMetrics {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_metrics: vec![wire::ScopeMetrics { scope: Some(scope), metrics, ..wire::ScopeMetrics::default() }],
            ..wire::ResourceMetrics::default()
        }],
    }
}

fn metric(family: &Family, span: Span) -> wire::Metric {
    let cumulative = wire::AggregationTemporality::Cumulative as i32;
    let numbers = || family.samples.iter().filter_map(|sample| number(family, sample, span)).collect();
    let data = match family.metric.kind {
        Kind::Counter => {
            Data::Sum(wire::Sum { data_points: numbers(), aggregation_temporality: cumulative, is_monotonic: true })
        }
        Kind::Gauge => Data::Gauge(wire::Gauge { data_points: numbers() }),
        Kind::Histogram(_) => Data::Histogram(wire::Histogram {
            data_points: family.samples.iter().filter_map(|sample| histogram(family, sample, span)).collect(),
            aggregation_temporality: cumulative,
        }),
    };
    wire::Metric {
        name: family.metric.name.to_owned(),
        description: format!("{}.", family.metric.help),
        unit: family.metric.unit.ucum(),
        data: Some(data),
        ..wire::Metric::default()
    }
}

fn number(family: &Family, sample: &Sample, span: Span) -> Option<wire::NumberDataPoint> {
    let value = match &sample.value {
        Value::Count(count) => wire::number_data_point::Value::AsInt(i64::try_from(*count).unwrap_or(i64::MAX)),
        Value::Number(number) => wire::number_data_point::Value::AsDouble(*number),
        Value::Histogram(_) => return None,
    };
    Some(wire::NumberDataPoint {
        attributes: attributes(family, sample),
        start_time_unix_nano: nanoseconds(span.from),
        time_unix_nano: nanoseconds(span.to),
        value: Some(value),
        ..wire::NumberDataPoint::default()
    })
}

fn histogram(family: &Family, sample: &Sample, span: Span) -> Option<wire::HistogramDataPoint> {
    let Value::Histogram(counts) = &sample.value else { return None };
    let HistogramCounts { bounds, counts: bucket_counts, sum, exemplars } = counts;
    Some(wire::HistogramDataPoint {
        attributes: attributes(family, sample),
        start_time_unix_nano: nanoseconds(span.from),
        time_unix_nano: nanoseconds(span.to),
        count: counts.count(),
        sum: Some(*sum),
        bucket_counts: bucket_counts.clone(),
        explicit_bounds: bounds.to_vec(),
        exemplars: exemplars.iter().flatten().map(exemplar).collect(),
        ..wire::HistogramDataPoint::default()
    })
}

fn exemplar(exemplar: &Exemplar) -> wire::Exemplar {
    wire::Exemplar {
        time_unix_nano: nanoseconds(exemplar.at),
        trace_id: exemplar.trace.to_vec(),
        value: Some(wire::exemplar::Value::AsDouble(exemplar.value)),
        ..wire::Exemplar::default()
    }
}

fn attributes(family: &Family, sample: &Sample) -> Vec<KeyValue> {
    family.labels(sample).map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: name.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// Nanoseconds since 1970; 0 before.
fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;
    use crate::catalogue::{REQUEST_DURATION, REQUESTS, REQUESTS_QUEUED};
    use crate::histogram::Histogram;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn exported(tell: impl FnOnce(&mut Snapshot)) -> wire::Metric {
        let mut snapshot = Snapshot::default();
        tell(&mut snapshot);
        let reporter = Reporter { attributes: vec![("service.name".to_owned(), "test".to_owned())] };
        let mut message = export(&snapshot, &reporter, Span { from: at(1), to: at(3) }).resource_metrics.remove(0);
        let resource = message.resource.unwrap();
        assert_eq!(resource.attributes, [attribute("service.name", "test")]);
        message.scope_metrics.remove(0).metrics.remove(0)
    }

    #[test]
    fn a_counter_is_a_sum_since_the_start() {
        let metric = exported(|snapshot| snapshot.tell(&REQUESTS, &["medium", "stop"], 5_u64));
        assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("espalier.requests", "{request}"));
        let Some(Data::Sum(sum)) = metric.data else { panic!("no sum") };
        assert!(sum.is_monotonic);
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000_000_000, 3_000_000_000));
        assert_eq!(point.attributes, [attribute("target", "medium"), attribute("end", "stop")]);
        assert_eq!(point.value, Some(wire::number_data_point::Value::AsInt(5)));
    }

    #[test]
    fn labels_without_a_value_are_no_attributes() {
        let metric = exported(|snapshot| snapshot.tell(&REQUESTS, &["", "invalid"], 1_u64));
        let Some(Data::Sum(sum)) = metric.data else { panic!("no sum") };
        assert_eq!(sum.data_points[0].attributes, [attribute("end", "invalid")]);
        let metric = exported(|snapshot| snapshot.tell(&REQUESTS_QUEUED, &[], 2_usize));
        assert!(matches!(metric.data, Some(Data::Gauge(gauge)) if gauge.data_points[0].attributes.is_empty()));
    }

    #[test]
    fn a_histogram_has_its_traces() {
        let times = Histogram::of(&REQUEST_DURATION);
        times.add_of_trace(Exemplar { value: 0.3, at: at(2), trace: [9; 16] });
        let metric = exported(|snapshot| snapshot.tell(&REQUEST_DURATION, &["a", "b", "c", ""], &times));
        let Some(Data::Histogram(histogram)) = metric.data else { panic!("no histogram") };
        let point = &histogram.data_points[0];
        assert_eq!(
            (point.count, point.sum, point.bucket_counts.len()),
            (1, Some(0.3), point.explicit_bounds.len() + 1)
        );
        assert_eq!(point.exemplars[0].trace_id, [9; 16]);
    }
}
