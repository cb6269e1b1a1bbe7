/**
 * The lock managers of a worker, one after the other: the next one opens before the last is disposed of.
 *
 * @module
 */
// Paces a workload: a worker tries again to open a lock.
import type { DistributedLock } from "../../mod.ts";
import { type LockSpec, type OpenLock, openLock } from "../conformance/open_lock.ts";
import { pause } from "../servers/wait.ts";
import type { Recorder } from "./recorder.ts";

/** The pause in ms before the client is opened again, if its server is down. */
const RETRY_MS = 100;

/** One lock manager, with its client. */
export interface Manager {
  readonly lock: DistributedLock;
  /** Its number, from 0. */
  readonly instance: number;
  readonly isDisposed: boolean;
}

interface OpenManager extends Manager {
  isDisposed: boolean;
  readonly open: OpenLock;
}

/** The lock managers. */
export class Managers implements AsyncDisposable {
  readonly #spec: LockSpec;
  readonly #recorder: Recorder;
  readonly #disposals = new Set<Promise<void>>();
  #isReplacing = false;
  #current: OpenManager;

  private constructor(spec: LockSpec, recorder: Recorder, open: OpenLock) {
    this.#spec = spec;
    this.#recorder = recorder;
    this.#current = newManager(open, 0);
  }

  /** Opens the first one. */
  static async open(spec: LockSpec, recorder: Recorder): Promise<Managers> {
    return new Managers(spec, recorder, await openLock(spec));
  }

  /** The one for new calls. */
  get current(): Manager {
    return this.#current;
  }

  /** Opens the next one, then disposes of the current one, whose calls may be under way. */
  async replace(): Promise<void> {
    if (this.#isReplacing) return;
    this.#isReplacing = true;
    const [last, open] = [this.#current, await reopen(this.#spec)];
    this.#current = newManager(open, last.instance + 1);
    this.#isReplacing = false;
    const disposal = this.#dispose(last);
    this.#disposals.add(disposal);
    await disposal;
    this.#disposals.delete(disposal);
  }

  async #dispose(manager: OpenManager): Promise<void> {
    const tell = this.#recorder.of("", manager.instance);
    manager.isDisposed = true;
    tell({ kind: "disposing" });
    await manager.lock[Symbol.asyncDispose]();
    tell({ kind: "disposed" });
    await manager.open[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#disposals);
    await this.#dispose(this.#current);
  }
}

function newManager(open: OpenLock, instance: number): OpenManager {
  return { lock: open.lock, instance, isDisposed: false, open };
}

async function reopen(spec: LockSpec): Promise<OpenLock> {
  for (;;) {
    try {
      return await openLock(spec);
    } catch {
      await pause(RETRY_MS);
    }
  }
}
