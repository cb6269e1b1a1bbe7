import { abortable, type Clock, settledWithin } from "../../core/time/clock.ts";
import { LinkedSet } from "../../core/lease/linked_set.ts";
import type { OutageBudget } from "../../core/time/outage_budget.ts";
import { ZooKeeperError } from "../connection/failures.ts";
import type {
  TransportOptions,
  TransportState,
  ZooKeeperTransport,
} from "../connection/transport.ts";
import { Session, type SessionLeases } from "./session.ts";

/** How many calls enter queues at the same time: their requests are as many as may be unanswered. */
const MAX_ENTERING = 128;

/** The sessions of an instance, one at a time: each is opened at the first use after the end of the one before. */
export class Sessions {
  /** The current session, or the last one if that is over; `null` before the first one. Only `Sessions` writes it. */
  latest: Session | null = null;
  readonly #leases: SessionLeases;
  readonly #rootPath: string;
  readonly #options: TransportOptions;
  readonly #open: (options: TransportOptions) => ZooKeeperTransport;
  readonly #clock: Clock;
  readonly #closed = new AbortController();
  #transport: ZooKeeperTransport | null = null;
  #opening: Promise<Session> | null = null;
  #enteringCount = 0;
  readonly #line = new LinkedSet<PromiseWithResolvers<void>>();

  constructor(
    leases: SessionLeases,
    rootPath: string,
    options: TransportOptions,
    open: (options: TransportOptions) => ZooKeeperTransport,
  ) {
    this.#leases = leases;
    this.#rootPath = rootPath;
    this.#options = options;
    this.#open = open;
    this.#clock = leases.clock;
  }

  /** Returns the current session unless it is over. If its connection is lost, it connects at once. */
  live(): Session | null {
    const transport = this.#transport;
    if (transport !== null && transport.state !== "connected") transport.connectNow();
    return this.latest === null || this.latest.isOver ? null : this.latest;
  }

  /**
   * Returns the current session, or opens the next one. It may end at any time.
   *
   * @throws {ZooKeeperError} If no session is opened within `unavailableAfterMs`, the credentials are
   * refused, no server can be connected to as this process is set up, or this was closed.
   */
  current(): Promise<Session> {
    const live = this.live();
    if (live !== null) return Promise.resolve(live);
    this.#opening ??= this.#openNext().finally(() => this.#opening = null);
    return this.#opening;
  }

  /** Why there is no connection, if that is known. */
  get connectionError(): ZooKeeperError | undefined {
    const cause = this.#transport?.connectError;
    if (cause === undefined) return undefined;
    return new ZooKeeperError("NOT_CONNECTED", "There is no connection to ZooKeeper", { cause });
  }

  /** Whether an attempt to connect has failed since the last session was accepted. */
  get isFailing(): boolean {
    return this.#transport?.isFailing ?? false;
  }

  /** When a server was last of use to the session, in monotonic ms. */
  get lastAnswerMs(): number {
    return this.latest?.lastAnswerMs ?? -Infinity;
  }

  /** As `current()`, but for a call: in the time that its budget has left. */
  async within(budget: OutageBudget): Promise<Session> {
    const session = await budget.settle(this.current());
    budget.answered();
    return session;
  }

  /**
   * Admits a call that is about to enter a queue, and afterwards calls {@linkcode Sessions.entered}. Others wait in
   * line, without a znode and without a request: so many calls at once do not block the event loop, and when there is
   * no answer, only the admitted ones try again. Returns the wait, if any, which rejects if the signal aborts.
   */
  admit(signal: AbortSignal): Promise<void> | null {
    return ++this.#enteringCount > MAX_ENTERING ? this.#waitInLine(signal) : null;
  }

  async #waitInLine(signal: AbortSignal): Promise<void> {
    const turn = Promise.withResolvers<void>();
    this.#line.add(turn);
    try {
      await abortable(turn.promise, signal);
    } catch (error) {
      if (this.#line.delete(turn)) this.#enteringCount--;
      else this.entered(); // it was admitted meanwhile
      throw error;
    }
  }

  /** A call that was admitted has entered its queue, or has failed: admits the next one. */
  entered(): void {
    if (--this.#enteringCount >= MAX_ENTERING) this.#line.shift()!.resolve();
  }

  /** Closes the current session, or the one that is being opened, within `timeoutMs`. For good. */
  async close(timeoutMs: number): Promise<void> {
    const endMs = this.#clock.now() + timeoutMs;
    // If we dropped the new session now, the server would keep it until its timeout.
    if (this.#opening !== null && !this.isFailing) {
      await settledWithin(this.#clock, this.#opening, timeoutMs);
    }
    this.#closed.abort(new ZooKeeperError("SESSION_OVER", "The session was closed"));
    await this.#opening?.catch(() => {}); // until nothing of it is left
    await this.latest?.close(Math.max(0, endMs - this.#clock.now()));
  }

  async #openNext(): Promise<Session> {
    this.#closed.signal.throwIfAborted();
    const transport = this.#transport = this.#open(this.#options);
    const { auth, unavailableAfterMs } = this.#options;
    const opened = Promise.withResolvers<Session>();
    const fail = (code: "TIMEOUT" | "AUTH_FAILED" | "SETUP", message: string) => {
      const { connectError: cause } = transport;
      opened.reject(new ZooKeeperError(code, message, cause === undefined ? {} : { cause }));
    };
    const late = "No ZooKeeper server accepted a session in time";
    const onStateChange = (state: TransportState) => {
      if (state === "connected") {
        // From here on the session listens to the transport.
        opened.resolve(new Session(transport, this.#leases, this.#rootPath, auth === undefined));
      } else if (state !== "refused") fail("TIMEOUT", late);
      // A server that refuses credentials was connected to.
      else if (transport.connectError === undefined) {
        fail("AUTH_FAILED", "ZooKeeper refused the credentials");
      } else fail("SETUP", "No ZooKeeper server can be connected to");
    };
    transport.setListener({ onStateChange, onPing: () => {} });
    const cancel = this.#clock.schedule(() => fail("TIMEOUT", late), unavailableAfterMs);
    try {
      return this.latest = await abortable(opened.promise, this.#closed.signal);
    } catch (error) {
      transport.destroy();
      throw error;
    } finally {
      cancel();
    }
  }
}
