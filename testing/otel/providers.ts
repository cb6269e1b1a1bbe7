/**
 * Providers of OpenTelemetry that keep what they get, without an SDK.
 *
 * @module
 */
import type {
  Attributes,
  MeterProvider,
  Span,
  TracerProvider,
} from "npm:@opentelemetry/api@^1.9.0";

/** A span, as far as it has come. */
export interface KeptSpan {
  readonly name: string;
  readonly attributes: Record<string, unknown>;
  readonly events: string[];
  /** What it was told about its failure: exceptions, then its status. */
  readonly failures: unknown[];
  isEnded: boolean;
}

/** A value that was added or recorded. */
export interface KeptValue {
  readonly metric: string;
  readonly value: number;
  readonly attributes: Attributes;
}

/** The providers, and what they got. */
export interface KeptTelemetry {
  readonly tracerProvider: TracerProvider;
  readonly meterProvider: MeterProvider;
  readonly spans: KeptSpan[];
  readonly values: KeptValue[];
  /** The sum of a metric, over the values that have an attribute. */
  sum(metric: string, attribute?: string): number;
}

/** Makes providers. */
export function keepTelemetry(): KeptTelemetry {
  const spans: KeptSpan[] = [];
  const values: KeptValue[] = [];
  const instrument = (metric: string) => {
    const keep = (value: number, attributes: Attributes) => {
      values.push({ metric, value, attributes });
    };
    return { add: keep, record: keep };
  };
  const meter = {
    createCounter: instrument,
    createHistogram: instrument,
    createUpDownCounter: instrument,
  };
  const startSpan = (name: string, { attributes }: { attributes: Attributes }) => {
    const kept: KeptSpan = {
      ...{ name, attributes: { ...attributes }, events: [], failures: [], isEnded: false },
    };
    spans.push(kept);
    const span = {
      setAttribute: (key: string, value: unknown) => {
        kept.attributes[key] = value;
        return span;
      },
      setAttributes: (more: Attributes) => {
        Object.assign(kept.attributes, more);
        return span;
      },
      addEvent: (event: string) => {
        kept.events.push(event);
        return span;
      },
      recordException: (exception: unknown) => void kept.failures.push(exception),
      setStatus: (status: unknown) => {
        kept.failures.push(status);
        return span;
      },
      end: () => void (kept.isEnded = true),
    };
    return span as unknown as Span;
  };
  return {
    tracerProvider: { getTracer: () => ({ startSpan }) } as unknown as TracerProvider,
    meterProvider: { getMeter: () => meter } as unknown as MeterProvider,
    spans,
    values,
    sum: (metric, attribute) =>
      values
        .filter((kept) => kept.metric === metric)
        .filter(({ attributes }) =>
          attribute === undefined || Object.values(attributes).includes(attribute)
        )
        .reduce((sum, { value }) => sum + value, 0),
  };
}
