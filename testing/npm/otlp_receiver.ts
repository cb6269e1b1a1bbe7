/**
 * Receives what OpenTelemetry exports by OTLP over HTTP, as JSON.
 *
 * @module
 */
import { text } from "node:stream/consumers";
import { listen } from "../http/listen.ts";

/** A span. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty, or left out, for the first span of a trace. */
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 2 for an error. */
  readonly status?: { readonly code?: number };
  readonly events?: readonly { readonly name: string }[];
}

/** A point of a metric: the value of a sum, the count of a histogram. */
export interface ReceivedPoint {
  readonly metric: string;
  readonly value: number;
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** A receiver. */
export interface OtlpReceiver extends AsyncDisposable {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  /** The last points of each metric. */
  readonly points: Map<string, ReceivedPoint[]>;
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface Exported {
  readonly resourceSpans?: readonly {
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<ReceivedSpan, "attributes"> & {
        readonly attributes?: readonly Attribute[];
      })[];
    }[];
  }[];
  readonly resourceMetrics?: readonly {
    readonly scopeMetrics: readonly { readonly metrics: readonly ExportedMetric[] }[];
  }[];
}

interface ExportedMetric {
  readonly name: string;
  readonly sum?: { readonly dataPoints: readonly ExportedPoint[] };
  readonly histogram?: { readonly dataPoints: readonly ExportedPoint[] };
}

interface ExportedPoint {
  readonly attributes?: readonly Attribute[];
  readonly asDouble?: number;
  readonly asInt?: string | number;
  readonly count?: string | number;
}

function plain(attributes: readonly Attribute[] = []): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}

/** Starts a receiver on loopback. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const points = new Map<string, ReceivedPoint[]>();
  const receive = ({ resourceSpans = [], resourceMetrics = [] }: Exported) => {
    const scopes = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans);
    for (const span of scopes.flatMap((scope) => scope.spans)) {
      spans.push({ ...span, attributes: plain(span.attributes) });
    }
    const metrics = resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics);
    for (const { name, sum, histogram } of metrics.flatMap((scope) => scope.metrics)) {
      const { dataPoints = [] } = sum ?? histogram ?? {};
      points.set(
        name,
        dataPoints.map(({ attributes, asDouble, asInt, count }) => ({
          metric: name,
          value: Number(asDouble ?? asInt ?? count),
          attributes: plain(attributes),
        })),
      );
    }
  };
  const listening = await listen(async (request, response) => {
    receive(JSON.parse(await text(request)) as Exported);
    response.setHeader("content-type", "application/json");
    response.end("{}");
  });
  return { ...listening, spans, points };
}
