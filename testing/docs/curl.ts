/**
 * Reads the curl commands of the pages.
 *
 * @module
 */

/** The request that a command sends. */
export interface CurlRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

const WORD = /"([^"]*)"|'([^']*)'|(\S+)/g;

/**
 * Reads a command with `-X`, `-H`, `-d` and a URL without scheme.
 *
 * @throws {Error} If it has another option, or no URL.
 */
export function parseCurl(command: string): CurlRequest {
  const words = [...command.matchAll(WORD)].map(([, a, b, c]) => (a ?? b ?? c)!);
  let url: string | undefined;
  let method: string | undefined;
  let body: string | undefined;
  // Otherwise the connection would stay open, which curl's does not.
  const headers: Record<string, string> = { connection: "close" };
  for (let at = 1; at < words.length; at++) {
    const word = words[at]!;
    if (word === "-X") method = words[++at]!;
    else if (word === "-d") body = words[++at]!;
    else if (word === "-H") {
      const [name = "", value = ""] = words[++at]!.split(/:\s*/, 2);
      headers[name] = value;
    } else if (!word.startsWith("-") && url === undefined) url = word;
    else throw new Error(`Cannot read ${JSON.stringify(word)} in: ${command}`);
  }
  if (url === undefined) throw new Error(`There is no URL in: ${command}`);
  method ??= body === undefined ? "GET" : "POST";
  return { url: `http://${url}`, method, headers, ...body !== undefined && { body } };
}
