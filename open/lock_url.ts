/**
 * The URL of a lock: `scheme://user:password@host1:1,host2:2/path?option=value`. The platform's `URL` refuses
 * lists of hosts.
 *
 * No message shows a part of the URL but its scheme, the names of options, and the path of a certificate: a
 * character that should have been escaped can put a password anywhere. Behind a '?' an '@' tells, and is refused.
 *
 * @module
 */
import { hintFor } from "../core/contract/option_hints.ts";
import { describe, type OptionTable, type Rule } from "../core/contract/options.ts";

/** The parts of a URL, without escapes. */
export interface LockUrl {
  /** What is before the first colon, in lower case. */
  readonly scheme: string;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Empty if there is no `//`, or nothing behind it. */
  readonly hosts: readonly {
    /** A name or an IP address, without brackets. */
    readonly host: string;
    readonly port: number | undefined;
  }[];
  /** As written, with the slash that it begins with. */
  readonly path: string;
  /** In the order in which they stand. */
  readonly query: ReadonlyMap<string, string>;
}

/** Takes a URL apart. Throws a `TypeError` that names the part that is wrong. */
export function parseLockUrl(text: unknown): LockUrl {
  if (typeof text !== "string") throw bad("it", `must be a string, but is ${describe(text)}`);
  const [, scheme, rest] = /^([a-z][a-z0-9+]*):(.*)$/is.exec(text) ?? [];
  if (scheme === undefined) throw bad("it", "must begin with a scheme, as in redis://host:6379");
  if (/[\s\p{Cc}]/u.test(rest!)) throw bad("it", "contains white space: escape it, as in %20");
  if (rest!.includes("#")) throw bad("it", "contains a '#': write %23");
  const [, authority = "", path, query = ""] = /^(?:\/\/([^/?]*))?([^?]*)(?:\?(.*))?$/.exec(rest!)!;
  if (path!.includes("@") || query.includes("@")) {
    throw bad(
      "it",
      "contains an '@' behind a '/' or a '?': write %2F, %3F for them in a password, or %40 for '@'",
    );
  }
  const at = authority.lastIndexOf("@");
  return {
    scheme: scheme.toLowerCase(),
    ...parseLogin(at === -1 ? null : authority.slice(0, at)),
    hosts: parseHosts(authority.slice(at + 1)),
    path: path!,
    query: parseQuery(query),
  };
}

function parseLogin(text: string | null): Pick<LockUrl, "user" | "password"> {
  if (text === null) return { user: undefined, password: undefined };
  const colon = text.indexOf(":");
  const user = colon === -1 ? text : text.slice(0, colon);
  return {
    user: user === "" ? undefined : unescape("the user", user),
    password: colon === -1 ? undefined : unescape("the password", text.slice(colon + 1)),
  };
}

function parseHosts(text: string): LockUrl["hosts"] {
  if (text === "") return [];
  return text.split(",").map((each, index) => {
    const what = `host ${index + 1}`;
    const [, literal, name, digits] = /^(?:\[([\da-f:.]+)\]|([^:[\]]*))(?::(.*))?$/is.exec(each) ??
      [];
    const host = literal ?? name;
    if (each === "") throw bad(what, "is empty");
    if (!host) throw bad(what, "must be a name, an IPv4 address, or an IPv6 address in []");
    if (digits === undefined) return { host, port: undefined };
    const port = Number(digits);
    if (!/^\d{1,5}$/.test(digits) || port < 1 || port > 65_535) {
      throw bad(`the port of ${what}`, "must be a number from 1 to 65535");
    }
    return { host, port };
  });
}

function parseQuery(text: string): Map<string, string> {
  const query = new Map<string, string>();
  for (const pair of text === "" ? [] : text.split("&")) {
    const [, name, value] = /^([A-Za-z]+)=(.*)$/s.exec(pair) ?? [];
    if (name === undefined) throw bad("what follows '?'", "must be like name=value&name=value");
    if (query.has(name)) throw bad("what follows '?'", `has '${name}' twice`);
    query.set(name, unescape(`'${name}'`, value!));
  }
  return query;
}

/** Decodes `%20`. A plus sign stays one, as everywhere in a URL but in forms. */
export function unescape(what: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw bad(what, "has a '%' that begins no escape: write %25");
  }
}

/**
 * The options in a query, with numbers and booleans for those whose rule wants them. Their values are checked by the
 * strategy. Throws a `TypeError` for one that `table` does not have.
 */
export function readQuery<Options extends object>(
  { scheme, query }: LockUrl,
  table: OptionTable<Options>,
): Partial<Options> {
  const read: Record<string, unknown> = {};
  for (const [name, text] of query) {
    if (!Object.hasOwn(table, name)) {
      const hint = hintFor(name, Object.keys(table));
      throw new TypeError(`Cannot use '${name}': ${scheme}: has no such option; ${hint}`);
    }
    read[name] = valueOf(text, table[name as keyof Options]);
  }
  return read as Partial<Options>;
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([["true", true], ["false", false]]);

/** A text, or the number or boolean that it may stand for if the rule refuses the text. */
function valueOf(text: string, rule: Rule): string | number | boolean {
  const typed = /^\d+$/.test(text) ? Number(text) : BOOLEANS.get(text);
  if (typed === undefined) return text;
  try {
    rule.check("", text);
    return text;
  } catch {
    return typed;
  }
}

/** Makes the error for a part of the URL. */
export function bad(part: string, problem: string): TypeError {
  return new TypeError(`Cannot use the URL of the lock: ${part} ${problem}`);
}
