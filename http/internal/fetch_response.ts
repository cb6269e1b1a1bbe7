/**
 * A `Response` of the Fetch API whose request holds a lock. A body that is complete at once, as text is, is
 * passed on after the release. A stream is passed on under the lock, until it has been read to its end, is
 * cancelled, or fails. If the lease is lost meanwhile, or the client leaves, it fails.
 *
 * @module
 */
import type { DistributedLock, Lease } from "../../core/contract/distributed_lock.ts";
import { describe } from "../../core/contract/options.ts";
import { lossOf } from "../../core/contract/request.ts";
import { pause, SYSTEM_CLOCK } from "../../core/time/clock.ts";
import { CLIENT_GONE, leaseLost, problemResponse } from "../shared/problem.ts";
import { type HoldSettings, report } from "./options.ts";
import {
  acquireForRequest,
  type Failed,
  leasesOf,
  releaseInTime,
  runUnderLease,
} from "./request.ts";

/**
 * @param known The object by which all locks of the request know its leases.
 * @returns The lease; `null` if the request runs without one; or its response, if it must not run.
 */
export async function acquireForFetch(
  lock: DistributedLock,
  settings: HoldSettings,
  request: Request,
  key: Promise<string | null | Failed>,
  known: object = request,
): Promise<Lease | Response | null> {
  // Reading the signal costs as much as all the rest: here it is done only if the request may wait. Before any
  // `await`: over HTTP/2, Deno's late signal does not abort for a client that left before.
  const abandoned = settings.waitMs > 0 ? request.signal : undefined;
  const requester = { leases: leasesOf(known), abandoned };
  const made = await key;
  if (made === null) return null;
  const acquired = await acquireForRequest(lock, made, settings, requester);
  if (acquired.state === "failed") return problemResponse(acquired.problem);
  if (acquired.state === "gone") return new Response(null, { status: CLIENT_GONE });
  return acquired.state === "held" ? acquired.lease : null;
}

/** @throws Whatever the handler throws; a `TypeError` if it returns something other than a response. */
export async function respondUnderLease(
  lease: Lease,
  settings: HoldSettings,
  request: Request,
  respond: () => Response | Promise<Response>,
): Promise<Response> {
  const result = await runUnderLease(lease, settings, respond);
  if (result.state === "failed") {
    await releaseInTime(lease, settings);
    throw result.error;
  }
  if (result.state === "lost") {
    report(settings, result.error);
    result.ended.then(() => releaseInTime(lease, settings));
    return problemResponse(leaseLost());
  }
  try {
    checkResponse(result.value);
    const response = withToken(result.value, lease, settings);
    return await holdUntilRead(lease, settings, response, request);
  } catch (error) { // not a response, or its body has another reader
    await releaseInTime(lease, settings);
    throw error;
  }
}

/**
 * Throws a `TypeError` unless a value is a response. `new Response(…)` would make an empty one of many a value.
 * It need not be of this realm's class: Next.js, tests in a `vm`, and packages have their own.
 */
function checkResponse(value: unknown): void {
  const { status, headers, body } = Object(value) as Partial<Response>;
  const hasBody = body === null || typeof body?.getReader === "function";
  if (typeof status === "number" && typeof headers?.get === "function" && hasBody) return;
  throw new TypeError(
    `Cannot answer the request: its handler must return a Response, but it returned ${
      describe(value)
    }`,
  );
}

function withToken(response: Response, lease: Lease, { fencingHeader }: HoldSettings): Response {
  if (fencingHeader === undefined || response.status < 200) return response;
  const marked = new Response(response.body, response); // the headers may be immutable
  marked.headers.set(fencingHeader, String(lease.fencingToken));
  return marked;
}

/**
 * Releases the lock now if the body is complete or nobody will read it, else when the stream is over. Nobody reads
 * a stream after HEAD; and some servers neither read nor cancel one whose client has left, that of Next.js for one.
 */
async function holdUntilRead(
  lease: Lease,
  settings: HoldSettings,
  response: Response,
  request: Request,
): Promise<Response> {
  const { body } = response;
  if (body === null || body.locked) { // no body, or one that somebody else reads: nothing to follow
    const loss = await releaseInTime(lease, settings);
    return loss === null || response.status < 200 ? response : problemResponse(leaseLost());
  }
  const reader = body.getReader();
  const start = await readAhead(reader);
  const isWhole = !Array.isArray(start);
  if (!isWhole && request.method !== "HEAD" && !request.signal.aborted) {
    return new Response(heldStream(lease, settings, reader, start, request.signal), response);
  }
  if (!isWhole) reader.cancel().catch(() => {});
  if (await releaseInTime(lease, settings) !== null) return problemResponse(leaseLost());
  // No cancelled body is passed on: a server may fail to read it. A whole body stays even for HEAD: the
  // server takes `content-length` from it.
  return new Response(isWhole ? start : null, response);
}

/** A body that has not ended after this many microtask turns is treated as a stream. */
const PROMPT_TURNS = 5;

/**
 * Starts two reads. If the body ends within a few microtask turns, as most do, returns the whole body.
 * Otherwise it is a stream: returns the two reads, whose chunks come first when it is passed on.
 */
async function readAhead(
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>,
): Promise<Uint8Array<ArrayBuffer> | ReturnType<typeof reader.read>[]> {
  const reads = [reader.read(), reader.read()];
  let isOver = false;
  reads[1]!.then(({ done }) => isOver = done, () => {});
  reads[0]!.catch(() => {}); // no unhandled rejection: a failure is thrown when the read is awaited
  for (let turn = 0; turn < PROMPT_TURNS && !isOver; turn++) await null;
  if (!isOver) return reads;
  const { value } = await reads[0]!;
  return value ?? new Uint8Array();
}

/** Passes a stream on while the lock is held. Its end waits for the release, 1 s at most. */
function heldStream(
  lease: Lease,
  settings: HoldSettings,
  reader: ReadableStreamDefaultReader<Uint8Array>,
  ahead: ReturnType<typeof reader.read>[],
  client: AbortSignal,
): ReadableStream<Uint8Array> {
  const { signal } = lease;
  let [lose, leave] = [() => {}, () => {}];
  const end = () => {
    signal.removeEventListener("abort", lose);
    client.removeEventListener("abort", leave);
    return releaseInTime(lease, settings);
  };
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const fail = (reason: unknown) => {
        controller.error(reason); // the client must not take a part for the whole
        reader.cancel(reason).catch(() => {}).finally(end);
      };
      lose = () => fail(signal.reason);
      // Most servers cancel the stream in this turn. One would print an error if it had failed by then.
      leave = () => void pause(SYSTEM_CLOCK, 0).then(() => fail(client.reason));
      client.addEventListener("abort", leave);
      if (signal.aborted) lose();
      else signal.addEventListener("abort", lose);
    },
    async pull(controller) {
      try {
        const { done, value } = await (ahead.shift() ?? reader.read());
        if (signal.aborted || client.aborted) return;
        if (!done) return controller.enqueue(value);
      } catch (error) {
        await end();
        throw error;
      }
      await lossOf(lease); // aborts the signal if the lease has expired, even if no timer has fired
      const loss = await end();
      if (loss !== null || signal.aborted) controller.error(loss ?? signal.reason);
      else controller.close();
    },
    async cancel(reason) {
      await reader.cancel(reason).catch(() => {});
      await end();
    },
  }, { highWaterMark: 0 });
}
