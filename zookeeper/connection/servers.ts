/**
 * The servers of an ensemble: how the user names them, their addresses, and the order in which they are tried.
 *
 * @module
 */
import { lookup as lookupAddresses, type LookupAddress } from "node:dns";
import { isIP } from "node:net";
import { badValue, describe } from "../../core/contract/options.ts";
import { BadServersError, type FailedAttempt } from "./connect_error.ts";
import type { ServerAddress, TransportOptions } from "./transport.ts";
import { checkPath } from "./znode_names.ts";

const DEFAULT_PORT = 2181;
const MAX_ADDRESSES = 8;

/**
 * Reads the user's servers. They are shuffled, so that clients spread over them; each list of a connect string
 * begins one server later.
 */
export function readServers(
  source: unknown,
): Pick<TransportOptions, "listServers"> & { readonly chroot: string } {
  if (typeof source === "function") return { listServers: () => callList(source), chroot: "" };
  const { servers, chroot } = parseConnectString(source);
  const order = shuffled(servers);
  // The first server may be silent for longer than a session may take to open. The next session, which asks for a
  // list of its own, must begin with another one.
  const listServers = () => {
    const list = [...order];
    order.push(order.shift()!);
    return Promise.resolve(list);
  };
  return { listServers, chroot };
}

/** @throws {unknown} As the function does; {@linkcode BadServersError} if its result is bad. */
async function callList(list: CallableFunction): Promise<readonly ServerAddress[]> {
  const text: unknown = await list();
  try {
    const { servers, chroot } = parseConnectString(text);
    if (chroot === "") return shuffled(servers);
    throw new RangeError(`The function returned the path ${chroot}: put it into 'rootPath'`);
  } catch (error) {
    throw new BadServersError((error as Error).message);
  }
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, rank: Math.random() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item);
}

/**
 * Parses a connect string: `host1:2181,host2:2181/chroot`. The port is optional; an IPv6 address is written in
 * brackets. The chroot is put before every other path; `""` if there is none.
 *
 * @throws {RangeError} If it names no server, has a scheme, credentials, a bad port or a bad chroot.
 */
export function parseConnectString(
  text: unknown,
): { readonly servers: readonly ServerAddress[]; readonly chroot: string } {
  if (typeof text !== "string") {
    throw new TypeError(badValue("the connect string", "a string", describe(text)));
  }
  const [, scheme] = /^([a-z][a-z\d+.-]*:)\/\//i.exec(text) ?? [];
  if (scheme !== undefined) throw badConnectString("without a scheme", `one with "${scheme}//"`);
  const slash = text.indexOf("/");
  const hosts = slash === -1 ? text : text.slice(0, slash);
  if (hosts.includes("@")) { // never shown: it may be a password
    throw badConnectString("without user and password, which are 'auth'", "one with an @");
  }
  const chroot = slash === -1 ? "" : text.slice(slash).replace(/\/$/, "");
  if (chroot !== "") checkPath("the chroot of the connect string", chroot);
  return { servers: hosts.split(",").map(parseServer), chroot };
}

function parseServer(text: string): ServerAddress {
  const [, literal, name, digits] = /^(?:\[([\da-fA-F:.]+)\]|([^\s:[\]]+))(?::(\d{1,5}))?$/
    .exec(text.trim()) ?? [];
  const host = literal ?? name;
  const port = digits === undefined ? DEFAULT_PORT : Number(digits);
  if (host === undefined || port < 1 || port > 65_535) {
    throw badConnectString("", `one with ${JSON.stringify(text)} in the place of a server`);
  }
  return { host, port };
}

function badConnectString(how: string, is: string): RangeError {
  const must = `like "host1:2181,host2:2181/chroot"${how === "" ? "" : `, ${how}`}`;
  return new RangeError(badValue("the connect string", must, is));
}

/** The server, and perhaps its address, that one attempt connects to. */
export interface Target {
  readonly server: ServerAddress;
  /** One IP address of the host; left out, the runtime looks the host up and chooses. */
  readonly address?: string;
}

export class ServerRotation {
  readonly #listServers: TransportOptions["listServers"];
  readonly #lookUp: Required<TransportOptions>["lookUp"];
  readonly #lookupMs: number;
  #last: Target | undefined;
  #isByName = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param lookupMs How long in ms a list or a lookup may take. */
  constructor(
    { listServers, lookUp = lookUpAsRuntime }: Pick<TransportOptions, "listServers" | "lookUp">,
    lookupMs: number,
  ) {
    this.#listServers = listServers;
    this.#lookUp = lookUp;
    this.#lookupMs = lookupMs;
  }

  /**
   * One round over all addresses of all servers, which are listed and looked up now; where that fails, it yields an
   * attempt that failed. It begins behind the last target of the round before, so that a reconnect tries another
   * server first.
   */
  async *round(): AsyncGenerator<Target | FailedAttempt, void, void> {
    try {
      const servers = await this.#within(this.#listServers());
      const last = this.#last?.server;
      for (const server of after(servers, (each) => isSame(each, last))) {
        yield* this.#targets(server);
      }
    } catch (error) {
      yield { phase: "resolve", error };
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

  async *#targets(server: ServerAddress): AsyncGenerator<Target | FailedAttempt, void, void> {
    try {
      const addresses = await this.#addresses(server);
      const first = after(addresses, (address) => address === this.#last?.address);
      for (const address of first) {
        if (!this.#isByName) yield this.#last = { server, address };
      }
      if (addresses.length === 0 || this.#isByName) yield this.#last = { server };
    } catch (error) {
      yield { server, phase: "resolve", error };
    }
  }

  /** The addresses of a host; none if it is an address, or has just one. */
  async #addresses({ host, port }: ServerAddress): Promise<readonly string[]> {
    if (this.#isByName || isIP(host) !== 0) return [];
    const found = await this.#within(this.#lookUp(host, port));
    return found.length === 1 ? [] : found.slice(0, MAX_ADDRESSES);
  }

  /** Limits the time of a lookup. There is at most one at a time. */
  async #within<T>(work: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const fail = () => reject(Object.assign(new Error("No answer in time"), { code: "ETIMEDOUT" }));
    this.#timer = setTimeout(fail, this.#lookupMs);
    try {
      return await Promise.race([work, promise]);
    } finally {
      clearTimeout(this.#timer);
    }
  }
}

function lookUpAsRuntime(host: string, port: number): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    // Deno needs the port, to find out whether the lookup is permitted.
    const options = { all: true, port } as const;
    lookupAddresses(host, options, (error: Error | null, addresses: LookupAddress[]) => {
      if (error !== null) reject(error);
      else resolve(addresses.map(({ address }) => address));
    });
  });
}

function after<T>(items: readonly T[], isFound: (item: T) => boolean): T[] {
  const start = items.findIndex(isFound) + 1;
  return [...items.slice(start), ...items.slice(0, start)];
}

function isSame(a: ServerAddress, b: ServerAddress | undefined): boolean {
  return a.host === b?.host && a.port === b.port;
}
