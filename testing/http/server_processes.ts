/**
 * Starts server processes that share a lock. The process itself is in `server.ts`.
 *
 * @module
 */
import type { LockSpec } from "../conformance/open_lock.ts";
import { type Reporter, startReporter } from "../processes/child.ts";
import { waitUntil } from "../servers/wait.ts";
import { CONDITION_BOUND_MS } from "../time.ts";
import type { FrameworkName } from "./frameworks.ts";
import type { HandlerEvent, Protocol } from "./handler.ts";

/** The options of a server process. */
export interface ServerOptions {
  readonly spec: LockSpec;
  readonly frameworks: readonly FrameworkName[];
  readonly protocol: Protocol;
}

/** The state of a lock, as a server process sees it. */
export interface LockSummary {
  readonly name: string;
  readonly isHeld: boolean;
  readonly waiters: number;
}

type Line =
  | LockSummary
  | HandlerEvent
  | { readonly echo: string }
  | { readonly urls: Readonly<Record<FrameworkName, string>> };

/** A server process. */
export interface ServerProcess extends AsyncDisposable {
  /** Returns the URL at which a framework listens. */
  url(framework: FrameworkName): string;
  /**
   * Returns the events in the handlers for this id so far. They come by a pipe, perhaps later than a reply by its
   * socket: the process answers an echo first, by the same pipe.
   */
  events(id: string): Promise<HandlerEvent["what"][]>;
  /** Returns when an event has happened, by the clock that all processes share, in µs. */
  atUs(id: string, what: HandlerEvent["what"]): number;
  /** Waits until an event has happened in the handler of a request. */
  event(id: string, what: HandlerEvent["what"]): Promise<void>;
  /** Opens a gate. */
  open(gate: string): Promise<void>;
  /** Queries the process's lock about a name. */
  query(name: string): Promise<LockSummary>;
  /** Ends the process. Resolves with its exit code, once nothing keeps the process alive. */
  finish(): Promise<number>;
  kill(signal: Deno.Signal): void;
}

/** Starts a process and waits until it listens. */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const reporter: Reporter<Line> = startReporter(
    new URL("./server.ts", import.meta.url),
    options,
  );
  const { reports, send, finish, kill, [Symbol.asyncDispose]: dispose } = reporter;
  await waitUntil("a server listens", () => reports.length > 0, CONDITION_BOUND_MS);
  const urls = (reports[0] as Extract<Line, { urls: unknown }>).urls;
  const eventsRead = (id: string) =>
    reports.flatMap((line) => "id" in line && line.id === id ? [line.what] : []);
  let echoes = 0;
  return {
    url: (framework) => urls[framework],
    async events(id) {
      const echo = String(++echoes);
      await send(`=${echo}`);
      const isBack = () => reports.some((line) => "echo" in line && line.echo === echo);
      await waitUntil("a server echoes", isBack);
      return eventsRead(id);
    },
    atUs: (id, what) =>
      reports.find((line): line is HandlerEvent =>
        "what" in line && line.id === id && line.what === what
      )!.atUs,
    event: (id, what) => waitUntil(`${id} ${what}`, () => eventsRead(id).includes(what)),
    open: send,
    async query(name) {
      const from = reports.length;
      await send(`?${name}`);
      const found = () =>
        reports.slice(from).find((line) => "isHeld" in line && line.name === name);
      await waitUntil(`a server answers the query for ${name}`, () => found() !== undefined);
      return found() as LockSummary;
    },
    finish,
    kill,
    [Symbol.asyncDispose]: dispose,
  };
}
