/**
 * The order in which the servers of an ensemble are tried, and their addresses. Nothing is connected here,
 * and nothing is timed but the lookups.
 *
 * @module
 */
import { lookup as lookupAddresses, type LookupAddress } from "node:dns";
import { isIP } from "node:net";
import type { ListServers, ServerAddress } from "./connect_string.ts";
import type { LookUp } from "./transport.ts";

/** The server, and perhaps its address, that one attempt connects to. */
export interface Target {
  readonly server: ServerAddress;
  /** One IP address of the host; left out, the runtime looks the host up and chooses. */
  readonly address?: string;
}

/** An attempt that ended before it began: the servers, or the addresses of one, are not known. */
export interface Unresolved {
  /** Left out if no server is known. */
  readonly server?: ServerAddress;
  readonly error: unknown;
}

/** The options of a rotation. */
export interface RotationOptions {
  /** Lists the servers, at the begin of each round. */
  readonly listServers: ListServers;
  readonly lookUp: LookUp;
  /** How long in ms a list or a lookup may take. */
  readonly lookupMs: number;
}

/** Maximum number of addresses of one host that are tried in a round. */
export const MAX_ADDRESSES = 8;

/** The servers, one after the other, in rounds. */
export class ServerRotation {
  readonly #options: RotationOptions;
  #last: Target | undefined;
  #isByName = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Begins with the first server. */
  constructor(options: RotationOptions) {
    this.#options = options;
  }

  /**
   * One round over all addresses of all servers. They are listed and looked up now. It begins behind the
   * last target of the round before, so that a reconnect tries another server first.
   */
  async *round(): AsyncGenerator<Target | Unresolved, void, void> {
    try {
      const servers = await this.#within(this.#options.listServers());
      const last = this.#last?.server;
      for (const server of after(servers, (each) => isSame(each, last))) {
        yield* this.#targets(server);
      }
    } catch (error) {
      yield { error };
    }
  }

  /** Leaves it to the runtime to choose addresses: this process may connect to a host only by its name. */
  connectByName(): void {
    this.#isByName = true;
  }

  /** Waits for no more lookups. A round that waits for one never goes on. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  async *#targets(server: ServerAddress): AsyncGenerator<Target | Unresolved, void, void> {
    try {
      const addresses = await this.#addresses(server);
      const first = after(addresses, (address) => address === this.#last?.address);
      for (const address of first) {
        if (!this.#isByName) yield this.#last = { server, address };
      }
      if (addresses.length === 0 || this.#isByName) yield this.#last = { server };
    } catch (error) {
      yield { server, error };
    }
  }

  /** The addresses of a host; none if it is an address, or has just one. */
  async #addresses({ host, port }: ServerAddress): Promise<readonly string[]> {
    if (this.#isByName || isIP(host) !== 0) return [];
    const found = await this.#within(this.#options.lookUp(host, port));
    return found.length === 1 ? [] : found.slice(0, MAX_ADDRESSES);
  }

  /** Limits the time of a lookup. There is at most one at a time. */
  async #within<T>(work: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const fail = () => reject(Object.assign(new Error("No answer in time"), { code: "ETIMEDOUT" }));
    this.#timer = setTimeout(fail, this.#options.lookupMs);
    try {
      return await Promise.race([work, promise]);
    } finally {
      clearTimeout(this.#timer);
    }
  }
}

/** Looks a host up as the runtime does when it connects. */
export function lookUp(host: string, port: number): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    // Deno needs the port, to find out whether the lookup is permitted.
    const options = { all: true, port } as const;
    lookupAddresses(host, options, (error: Error | null, addresses: LookupAddress[]) => {
      if (error !== null) reject(error);
      else resolve(addresses.map(({ address }) => address));
    });
  });
}

/** Returns the items in an order that begins behind the one that is found; as they are if none is. */
function after<T>(items: readonly T[], isFound: (item: T) => boolean): T[] {
  const start = items.findIndex(isFound) + 1;
  return [...items.slice(start), ...items.slice(0, start)];
}

function isSame(a: ServerAddress, b: ServerAddress | undefined): boolean {
  return a.host === b?.host && a.port === b.port;
}
