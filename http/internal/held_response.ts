/**
 * Holds a lease until a response of the Fetch API is complete.
 *
 * @module
 */
import type { Lease } from "../../core/distributed_lock.ts";
import { type HoldSettings, report } from "./options.ts";
import { leaseLost, problemResponse } from "./problem.ts";
import { lossOf, releaseInTime } from "./lease_end.ts";
import { runUnderLease } from "./run_under_lease.ts";

/**
 * Makes a response under a lease, which is released once: when the response was read to its end, was
 * cancelled or broke off, when the handler threw, or when the lease is lost.
 *
 * @param hasReader Whether the server will read the body: it does not after a HEAD request.
 */
export async function respondUnderLease(
  lease: Lease,
  settings: HoldSettings,
  hasReader: boolean,
  respond: () => Response | Promise<Response>,
): Promise<Response> {
  const result = await runUnderLease(lease, respond, (late) => {
    if (late.state === "done") discard(late.value);
    else report(settings, late.error);
  });
  if (result.state === "failed") {
    await releaseInTime(lease);
    throw result.error;
  }
  if (result.state === "lost") {
    report(settings, result.error);
    await releaseInTime(lease);
    return problemResponse(leaseLost());
  }
  try {
    return await holdUntilRead(lease, withToken(result.value, lease, settings), hasReader);
  } catch (error) { // it is no response, or its body has a reader already
    await releaseInTime(lease);
    throw error;
  }
}

/** The response with the fencing token among its headers, if the settings want it there. */
function withToken(response: Response, lease: Lease, { fencingHeader }: HoldSettings): Response {
  if (fencingHeader === undefined || response.status < 200) return response;
  const marked = new Response(response.body, response); // the headers may be immutable
  marked.headers.set(fencingHeader, String(lease.fencingToken));
  return marked;
}

async function holdUntilRead(
  lease: Lease,
  response: Response,
  hasReader: boolean,
): Promise<Response> {
  const { body } = response;
  if (body === null || body.locked) {
    await releaseInTime(lease);
    return response;
  }
  const reader = body.getReader();
  const start = await readAhead(reader);
  const isWhole = !Array.isArray(start);
  if (!isWhole && hasReader) return new Response(heldStream(lease, reader, start), response);
  if (!isWhole) reader.cancel().catch(() => {});
  await releaseInTime(lease);
  // A server may stumble over a body that was cancelled. A whole one has a length, after HEAD too.
  return new Response(isWhole ? start : null, response);
}

type Reader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
type Read = ReturnType<Reader["read"]>;

/** Microtask turns after which a body counts as a stream. */
const PROMPT_TURNS = 5;

/**
 * The whole body, if it is available when the handler returns, as most are: such a response is
 * complete. Else the reads that have been started: one or two chunks of a stream are read ahead.
 */
async function readAhead(reader: Reader): Promise<Uint8Array<ArrayBuffer> | Read[]> {
  const reads = [reader.read(), reader.read()];
  let isOver = false;
  reads[1]!.then(({ done }) => isOver = done, () => {});
  reads[0]!.catch(() => {}); // its failure shows when it is awaited later
  for (let turn = 0; turn < PROMPT_TURNS && !isOver; turn++) await null;
  if (!isOver) return reads;
  const { value } = await reads[0]!;
  return value ?? new Uint8Array();
}

/** Stops the source of a response that nobody will read. */
function discard(response: unknown): void {
  if (!(response instanceof Response) || response.body?.locked !== false) return;
  response.body.cancel().catch(() => {});
}

/**
 * Passes a stream on. Its end waits until the lock is free, so that a client that has all of it finds
 * it free.
 */
function heldStream(lease: Lease, reader: Reader, ahead: Read[]): ReadableStream<Uint8Array> {
  const { signal } = lease;
  let lose = () => {};
  const end = () => {
    signal.removeEventListener("abort", lose);
    return releaseInTime(lease);
  };
  return new ReadableStream<Uint8Array>({
    start(controller) {
      lose = () => {
        controller.error(signal.reason); // half of a response must not look like all of it
        reader.cancel(signal.reason).catch(() => {});
        end();
      };
      if (signal.aborted) lose();
      else signal.addEventListener("abort", lose);
    },
    async pull(controller) {
      try {
        const { done, value } = await (ahead.shift() ?? reader.read());
        if (signal.aborted) return;
        if (!done) return controller.enqueue(value);
      } catch (error) {
        await end();
        throw error;
      }
      await lossOf(lease); // reads the clock: a loss shows before any timer has run
      await end();
      if (signal.aborted) controller.error(signal.reason);
      else controller.close();
    },
    async cancel(reason) {
      await reader.cancel(reason).catch(() => {});
      await end();
    },
  }, { highWaterMark: 0 });
}
