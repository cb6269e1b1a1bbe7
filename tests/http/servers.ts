/**
 * Two server processes that share a lock.
 *
 * @module
 */
import type { LockSpec } from "../conformance/open_lock.ts";
import { type Reporter, startReporter } from "../processes/child.ts";
import { waitUntil } from "../servers/wait.ts";
import type { FrameworkName } from "./frameworks.ts";
import type { HandlerEvent } from "./handler.ts";

/** What a server process serves. */
export interface ServerOptions {
  readonly spec: LockSpec;
  readonly frameworks: readonly FrameworkName[];
}

type Line = HandlerEvent | { readonly urls: Readonly<Record<FrameworkName, string>> };

/** A server process. */
export interface ServerProcess extends AsyncDisposable {
  /** Where a framework listens. */
  url(framework: FrameworkName): string;
  /** What has happened in its handlers so far. */
  events(id: string): HandlerEvent["what"][];
  /** Waits until something happened to a request. */
  event(id: string, what: HandlerEvent["what"]): Promise<void>;
  /** Opens a gate. */
  open(gate: string): Promise<void>;
  kill(signal: Deno.Signal): void;
}

/** Starts a process and waits until it listens. */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const { reports, send, kill, [Symbol.asyncDispose]: dispose }: Reporter<Line> = startReporter(
    new URL("./server.ts", import.meta.url),
    options,
  );
  await waitUntil("a server listens", () => reports.length > 0);
  const urls = (reports[0] as Extract<Line, { urls: unknown }>).urls;
  const events = (id: string) =>
    reports.flatMap((line) => "id" in line && line.id === id ? [line.what] : []);
  return {
    url: (framework) => urls[framework],
    events,
    event: (id, what) => waitUntil(`${id} ${what}`, () => events(id).includes(what)),
    open: send,
    kill,
    [Symbol.asyncDispose]: dispose,
  };
}
