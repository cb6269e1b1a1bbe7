/**
 * OpenTelemetry for locks: spans of waits and holds, and metrics. It subscribes to the channels of
 * `node:diagnostics_channel` on which all strategies tell what they do (`CHANNELS` of the main entry), so it
 * knows all locks of the process, of every copy of this package. Needs `@opentelemetry/api`.
 *
 * @module
 */
import { type Channel, subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import {
  type Attributes,
  type Context,
  context,
  type Meter,
  metrics,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  trace,
  type Tracer,
} from "npm:@opentelemetry/api@^1.9.0";
import {
  type AcquireEvent,
  CHANNELS,
  type HoldEvent,
  RUN_CALL,
  type Runnable,
} from "../core/contract/channels.ts";
import { LockError, type LockErrorCode } from "../core/contract/errors.ts";
import { badValue, callback, describe, readTable, type Rule } from "../core/contract/options.ts";

const SCOPE = "@holdfast/lock";
/** In seconds: from a free lock on a fast network to a long job. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Options of {@linkcode instrumentLocks}. */
export interface InstrumentLocksOptions {
  /**
   * Turns the name of a lock into a template, such as `"orders:{id}"`: the attribute `holdfast.lock.name` of
   * spans and metrics. Return few different templates, because each is a series of its own. `undefined` leaves the
   * attribute out, and so does an error.
   *
   * @default no such attribute
   */
  nameTemplate?: ((name: string) => string | undefined) | undefined;
  /**
   * The `TracerProvider` that makes the spans.
   *
   * @default the global one
   */
  tracerProvider?: { getTracer(name: string): object } | undefined;
  /**
   * The `MeterProvider` that makes the metrics. The global one must be set before the call.
   *
   * @default the global one
   */
  meterProvider?: { getMeter(name: string): object } | undefined;
}

/**
 * Makes spans and metrics of all locks in this process, until it is disposed of. Call it once, after the SDK has
 * started: a second call makes all of them twice. A table of the spans and metrics is in `docs/tracing.md`.
 *
 * The span `holdfast.acquire` is active during the call, so that a client's own span of its first request is
 * inside. The span `holdfast.hold`, from the grant to the release or the loss, has the same parent. If a call
 * waits for over 100 ms, `query()` is sent once, for the label of the holder.
 *
 * @example Usage
 * ```ts
 * import { MemoryLock } from "@holdfast/lock";
 * import { instrumentLocks } from "@holdfast/lock/otel";
 *
 * using _instrumented = instrumentLocks({
 *   nameTemplate: (name) => name.replace(/\d+/g, "{id}"),
 * });
 * await using locks = new MemoryLock();
 * await locks.request("orders:42", () => {}); // spans and metrics of "orders:{id}"
 * ```
 *
 * @param options Name templates, and providers.
 * @returns Disposal unsubscribes, and ends the spans of what is still under way.
 * @throws {TypeError} If an option has a wrong type, or is unknown.
 */
export function instrumentLocks(options: InstrumentLocksOptions = {}): Disposable {
  const read = readTable("instrumentLocks()", options, {
    nameTemplate: callback(),
    tracerProvider: PROVIDER,
    meterProvider: PROVIDER,
  });
  return new Instrumentation(read);
}

const PROVIDER: Rule<undefined> = {
  default: undefined,
  check: (what, value) => {
    if (typeof value === "object" && value !== null) return;
    throw new TypeError(badValue(what, "a provider of OpenTelemetry", describe(value)));
  },
};

/** How calls end that have failed. An abort or a disposal has no code. */
const OUTCOMES: Readonly<Partial<Record<LockErrorCode, string>>> = {
  ERR_LOCK_TIMEOUT: "timeout",
  ERR_LOCK_UNAVAILABLE: "unavailable",
  ERR_LOCK_SETUP: "setup",
};

function outcomeOf({ result, error }: AcquireEvent): string {
  if (result !== undefined) return result;
  if (!(error instanceof LockError)) return "aborted";
  return OUTCOMES[error.code] ?? "error";
}

function metersOf(provider: { getMeter(name: string): object }) {
  const meter = provider.getMeter(SCOPE) as Meter;
  const seconds = { unit: "s", advice: { explicitBucketBoundaries: SECONDS } };
  return {
    acquires: meter.createCounter("holdfast.acquires", {
      description: "Calls that asked for a lock, by outcome",
      unit: "{call}",
    }),
    acquireDuration: meter.createHistogram("holdfast.acquire.duration", {
      description: "How long calls that asked for a lock took",
      ...seconds,
    }),
    holdDuration: meter.createHistogram("holdfast.hold.duration", {
      description: "How long leases were held",
      ...seconds,
    }),
    losses: meter.createCounter("holdfast.losses", {
      description: "Leases that were lost, by reason",
      unit: "{lease}",
    }),
    lateRenewals: meter.createCounter("holdfast.renewals.late", {
      description: "Leases that were renewed late",
      unit: "{lease}",
    }),
    held: meter.createUpDownCounter("holdfast.held", {
      description: "Leases that are held now",
      unit: "{lease}",
    }),
    waiting: meter.createUpDownCounter("holdfast.waiting", {
      description: "Calls that wait now",
      unit: "{call}",
    }),
  };
}

class Instrumentation implements Disposable {
  readonly #template: (name: string) => string | undefined;
  readonly #tracer: Tracer;
  readonly #meters: ReturnType<typeof metersOf>;
  /** Those under way. `series` are the attributes of their metrics, `parent` what was active when a call began. */
  readonly #calls = new Map<AcquireEvent, {
    readonly span: Span;
    readonly series: Attributes;
    readonly parent: Context;
    isWaiting: boolean;
  }>();
  readonly #holds = new Map<HoldEvent, { readonly span: Span; readonly series: Attributes }>();
  readonly #ends: (() => void)[] = [];

  constructor({ nameTemplate, tracerProvider, meterProvider }: InstrumentLocksOptions) {
    this.#template = nameTemplate ?? (() => undefined);
    this.#tracer = (tracerProvider ?? trace).getTracer(SCOPE) as Tracer;
    this.#meters = metersOf(meterProvider ?? metrics);
    const calls = tracingChannel(CHANNELS.acquire);
    this.#subscribe(calls.start.name, (event: AcquireEvent & Runnable) => this.#onCallStart(event));
    this.#subscribe(calls.asyncEnd.name, (event: AcquireEvent) => this.#onCallEnd(event));
    this.#subscribe(CHANNELS.wait, (event: AcquireEvent) => this.#onWait(event));
    this.#subscribe(CHANNELS.blocked, (event: AcquireEvent) => this.#onBlocked(event));
    this.#subscribe(CHANNELS.grant, (event: HoldEvent) => this.#onGrant(event));
    this.#subscribe(CHANNELS.renewalLate, (event: HoldEvent) => this.#onRenewalLate(event));
    this.#subscribe(CHANNELS.lost, (event: HoldEvent) => this.#onLost(event));
    this.#subscribe(CHANNELS.release, (event: HoldEvent) => this.#onRelease(event));
  }

  [Symbol.dispose](): void {
    for (const end of this.#ends) end();
    for (const event of this.#calls.keys()) this.#endCall(event)?.span.end();
    for (const { span, series } of this.#holds.values()) {
      this.#meters.held.add(-1, series); // no duration: the lease goes on
      span.end();
    }
    this.#holds.clear();
  }

  #subscribe<Event>(name: Channel["name"], onEvent: (event: Event) => void): void {
    const listener = (event: unknown) => onEvent(event as Event);
    subscribe(name, listener);
    this.#ends.push(() => void unsubscribe(name, listener));
  }

  /** What spans and metrics have in common: few values, none of which grows with the number of locks. */
  #seriesOf({ strategy, mode, name }: AcquireEvent | HoldEvent): Attributes {
    let template: string | undefined;
    try {
      template = this.#template(name);
    } catch {
      // The function explains locks to people. It must not end the call, or the process.
    }
    return {
      "holdfast.strategy": strategy,
      "holdfast.mode": mode,
      ...template === undefined ? {} : { "holdfast.lock.name": template },
    };
  }

  // Calls.

  #onCallStart(event: AcquireEvent & Runnable): void {
    const parent = context.active();
    const series = this.#seriesOf(event);
    const attributes = { ...series, ...labelled(event), "holdfast.method": event.method };
    const span = this.#tracer.startSpan("holdfast.acquire", { attributes }, parent);
    this.#calls.set(event, { span, series, parent, isWaiting: false });
    const active = trace.setSpan(parent, span);
    event[RUN_CALL] = (call) => context.with(active, call);
  }

  #onWait(event: AcquireEvent): void {
    const call = this.#calls.get(event);
    if (call === undefined) return;
    call.isWaiting = true;
    this.#meters.waiting.add(1, call.series);
    const { position, waiters } = event;
    if (position !== undefined) call.span.setAttribute("holdfast.position", position);
    if (waiters !== undefined) call.span.setAttribute("holdfast.waiters", waiters);
    call.span.addEvent("waits");
  }

  #onBlocked(event: AcquireEvent): void {
    const { holderLabel, holderCount = 0 } = event;
    const attributes: Attributes = { "holdfast.holder.count": holderCount };
    if (holderLabel !== undefined) attributes["holdfast.holder.label"] = holderLabel;
    this.#calls.get(event)?.span.setAttributes(attributes).addEvent("blocked", attributes);
  }

  #onCallEnd(event: AcquireEvent): void {
    const call = this.#endCall(event);
    if (call === undefined) return;
    const { span, series } = call;
    const outcome = outcomeOf(event);
    const { error, waitedMs } = event;
    span.setAttribute("holdfast.outcome", outcome);
    if (outcome !== "granted" && outcome !== "busy") fail(span, error);
    span.end();
    const counted = { ...series, "holdfast.outcome": outcome };
    this.#meters.acquires.add(1, counted);
    this.#meters.acquireDuration.record(waitedMs / 1_000, counted);
  }

  #endCall(event: AcquireEvent) {
    const call = this.#calls.get(event);
    this.#calls.delete(event);
    if (call?.isWaiting) this.#meters.waiting.add(-1, call.series);
    return call;
  }

  // Leases.

  /** In memory it is published in the context of the release before, so the call's is used. */
  #onGrant(event: HoldEvent): void {
    const parent = (event.call && this.#calls.get(event.call))?.parent ?? ROOT_CONTEXT;
    const series = this.#seriesOf(event);
    const attributes = {
      ...series,
      ...labelled(event),
      "holdfast.fencing_token": String(event.fencingToken),
    };
    const span = this.#tracer.startSpan("holdfast.hold", { attributes }, parent);
    this.#holds.set(event, { span, series });
    this.#meters.held.add(1, series);
  }

  #onRenewalLate(event: HoldEvent): void {
    const hold = this.#holds.get(event);
    hold?.span.addEvent("renewal late", { "holdfast.remaining_ms": event.remainingMs ?? 0 });
    this.#meters.lateRenewals.add(1, hold?.series ?? this.#seriesOf(event));
  }

  #onLost(event: HoldEvent): void {
    const { reason = "expired", error } = event;
    const hold = this.#endHold(event);
    const series = hold?.series ?? this.#seriesOf(event);
    this.#meters.losses.add(1, { ...series, "holdfast.loss.reason": reason });
    if (hold === undefined) return;
    hold.span.setAttribute("holdfast.loss.reason", reason);
    fail(hold.span, error);
    hold.span.end();
  }

  #onRelease(event: HoldEvent): void {
    const hold = this.#endHold(event);
    if (event.error !== undefined && hold !== undefined) fail(hold.span, event.error);
    hold?.span.end();
  }

  #endHold(event: HoldEvent) {
    const hold = this.#holds.get(event);
    if (hold === undefined) return undefined;
    this.#holds.delete(event);
    this.#meters.held.add(-1, hold.series);
    const { heldMs } = event;
    if (heldMs !== undefined) this.#meters.holdDuration.record(heldMs / 1_000, hold.series);
    return hold;
  }
}

function labelled({ label }: AcquireEvent | HoldEvent): Attributes {
  return label === undefined ? {} : { "holdfast.label": label };
}

/** Without the message and the stack of the error, which have the name of the lock. */
function fail(span: Span, error: unknown): void {
  const name = error instanceof Error ? error.name : "Error";
  const message = error instanceof LockError ? error.code : name;
  span.recordException({ name, message });
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}
