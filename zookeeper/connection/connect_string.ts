/**
 * The connect string: which servers form the ensemble, and which chroot a client uses. Hosts are looked
 * up in `server_rotation.ts`.
 *
 * @module
 */
import { badValue, describe } from "../../core/contract/options.ts";
import { checkPath } from "./znode_names.ts";

/** Default port of a ZooKeeper server. */
const DEFAULT_PORT = 2181;

/** The address of one server of an ensemble. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** The parts of a connect string. */
export interface ConnectString {
  readonly servers: readonly ServerAddress[];
  /** The path that is put before every other path; `""` if there is none. */
  readonly chroot: string;
}

/** The servers: a connect string, or a function that returns one and is called again at each connect. */
export type ConnectSource = string | (() => string | Promise<string>);

/** Lists the servers, in the order in which they are tried. */
export type ListServers = () => Promise<readonly ServerAddress[]>;

/** The user's function has returned no usable connect string. */
export class BadServersError extends Error {
  /** The name of the class. */
  override readonly name = "BadServersError";
}

/**
 * Reads the user's servers. They are shuffled, so that clients spread over them.
 *
 * @param source A connect string, or a function that returns one without a chroot.
 * @returns What lists the servers, and the chroot.
 * @throws {TypeError} If the source is neither a string nor a function.
 * @throws {RangeError} If a connect string is bad.
 */
export function readServers(source: unknown): { listServers: ListServers; chroot: string } {
  if (typeof source === "function") return { listServers: () => callList(source), chroot: "" };
  const { servers, chroot } = parseConnectString(source);
  const order = shuffled(servers);
  return { listServers: () => Promise.resolve(order), chroot };
}

/** @throws {unknown} As the function does; {@linkcode BadServersError} if its result is bad. */
async function callList(list: CallableFunction): Promise<readonly ServerAddress[]> {
  const text: unknown = await list();
  const { servers, chroot } = readList(text);
  if (chroot === "") return shuffled(servers);
  throw new BadServersError(`The function returned the path ${chroot}: put it into 'rootPath'`);
}

function readList(text: unknown): ConnectString {
  try {
    return parseConnectString(text);
  } catch (cause) {
    throw new BadServersError((cause as Error).message, { cause });
  }
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, rank: Math.random() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item);
}

/**
 * Parses a connect string: `host1:2181,host2:2181/chroot`. The port is optional; an IPv6 address is
 * written in brackets.
 *
 * @param text The connect string.
 * @returns The servers in the given order, and the chroot.
 * @throws {TypeError} If the connect string is not a string.
 * @throws {RangeError} If it names no server, or has a bad port or a bad chroot.
 */
export function parseConnectString(text: unknown): ConnectString {
  if (typeof text !== "string") {
    throw new TypeError(
      badValue("the connect string", "a string", describe(text)),
    );
  }
  const slash = text.indexOf("/");
  const hosts = slash === -1 ? text : text.slice(0, slash);
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
    throw new RangeError(
      badValue(
        "the connect string",
        'like "host1:2181,host2:2181/chroot"',
        `one with ${JSON.stringify(text)} in the place of a server`,
      ),
    );
  }
  return { host, port };
}
