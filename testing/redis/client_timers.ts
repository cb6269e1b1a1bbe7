/**
 * Waits until closed client packages are at rest. They end some timers and sockets after the end that
 * they report; a test that does not wait for them is blamed for a leak, and so is the next one.
 *
 * @module
 */
import process from "node:process";
import { pause } from "../servers/wait.ts";
import { scaled } from "../time.ts";

/** More than the longest timer of a closed package: 2.2 s, a pause between attempts to connect. */
const AT_REST_WITHIN_MS = scaled(5_000);

/** Only a test is blamed. Processes of a test end their timers when they end. */
const IS_TEST = process.argv[1]?.endsWith("_test.ts") ?? false;

/** The clients that are open in this process: as long as one is, timers may be its own. */
const open = new Set<symbol>();

/** Notes that a client is open. Returns a function that closes it and, if it is the last one, waits. */
export function noteOpen(close: () => unknown): () => Promise<void> {
  const client = Symbol();
  open.add(client);
  return async () => {
    try {
      await close();
    } finally {
      open.delete(client);
      await atRest();
    }
  };
}

/**
 * Waits until this process has no timer and no socket of a package any more. The test runner finds
 * all that remains after the bound, such as a timer that a lock has forgotten.
 */
async function atRest(): Promise<void> {
  if (!IS_TEST) return;
  const endMs = performance.now() + AT_REST_WITHIN_MS;
  while (open.size === 0 && isActive() && performance.now() < endMs) await pause(1);
}

function isActive(): boolean {
  const kinds = process.getActiveResourcesInfo();
  return kinds.includes("Timeout") || kinds.includes("TCPSocketWrap");
}
