/**
 * Limits how long the body of a request may take to arrive.
 *
 * @module
 */
import { PassThrough, type Readable } from "node:stream";
import { SYSTEM_CLOCK } from "../core/time/clock.ts";
import type { LockRoutesApp } from "./fastify_types.ts";
import { bodyTimeout } from "./request_error.ts";

/** Without one of these headers Fastify reads no body. */
const BODY_HEADERS = ["content-length", "transfer-encoding", "content-type"];

/** Ends requests with 408 whose body has not arrived in time. Fastify parses nothing of it then. */
export function limitBodyTime(app: LockRoutesApp, maxBodyMs: number): void {
  // deno-lint-ignore require-await -- Fastify expects an async hook, or one with a callback
  app.addHook("preParsing", async ({ headers }, _reply, payload) => {
    const hasBody = BODY_HEADERS.some((name) => headers[name] !== undefined);
    return hasBody ? limited(payload, maxBodyMs) : payload;
  });
}

/**
 * A copy of a body that fails after the time limit. The body itself goes on: if it were destroyed, the
 * client would get no answer.
 */
function limited(body: Readable, maxBodyMs: number): Readable {
  const copy = new PassThrough();
  const cancel = SYSTEM_CLOCK.schedule(() => {
    body.unpipe(copy);
    copy.destroy(bodyTimeout(maxBodyMs));
  }, maxBodyMs);
  copy.on("error", () => {}); // Fastify does not read the bodies of all requests
  body.on("end", cancel).on("error", (error) => copy.destroy(error)).on("close", cancel);
  return body.pipe(copy);
}
