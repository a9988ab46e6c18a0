"""Reads requests of OTLP with the schemas of OpenTelemetry and prints what is in them, a JSON object for each file."""
import json
import sys

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

traces, metrics = sys.argv[1:]
request = ExportTraceServiceRequest.FromString(open(traces, "rb").read())
resource = {one.key: one.value.string_value for one in request.resource_spans[0].resource.attributes}
spans = [
    {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "span": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "start": span.start_time_unix_nano // 1000000,
        "kind": span.kind,
    }
    for scope in request.resource_spans[0].scope_spans
    for span in scope.spans
]
print(json.dumps({"service": resource["service.name"], "spans": spans}))
request = ExportMetricsServiceRequest.FromString(open(metrics, "rb").read())
found = {
    metric.name: metric.WhichOneof("data")
    for scope in request.resource_metrics[0].scope_metrics
    for metric in scope.metrics
}
print(json.dumps({"metrics": found}))
