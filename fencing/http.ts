import type { Lease } from "../core/contract/distributed_lock.ts";
import { describe, flag, type OptionTable, readTable } from "../core/contract/options.ts";
import { problem, problemResponse, refusalOf } from "../http/shared/problem.ts";
import { checkToken, type FenceStore, MAX_TOKEN } from "./fences.ts";

/** The header that carries the fencing token, as decimal digits. */
export const FENCE_HEADER = "if-fence";

/** Options of {@linkcode fencedHttp}. */
export interface FencedHttpOptions {
  /**
   * Whether the token of a request is remembered. With `false` it is only compared: for requests under
   * shared leases, of which the one with the greatest token must not lock out the others.
   *
   * @default {true}
   */
  raise?: boolean;
}

const FENCED_HTTP_OPTIONS = { raise: flag(true) } satisfies OptionTable<FencedHttpOptions>;

/**
 * Makes the header that carries the fencing token of a lease. A service behind {@linkcode fencedHttp}
 * rejects the request if a later lease has been used there.
 *
 * @param lease The lease under which the request is sent.
 * @returns The headers, for `fetch(url, { headers })`.
 * @throws {TypeError} If it is no lease, but for instance the promise of one: an `await` is missing.
 *
 * @example Usage
 * ```ts
 * import { fenceHeader } from "@holdfast/lock/fencing";
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(fenceHeader({ fencingToken: 7n }), { "if-fence": "7" });
 * ```
 */
export function fenceHeader(lease: Pick<Lease, "fencingToken">): Record<string, string> {
  const { fencingToken } = lease;
  checkToken(fencingToken); // a promise of a lease has none: that would send the word "undefined"
  return { [FENCE_HEADER]: String(fencingToken) };
}

/**
 * Wraps a handler of the Fetch API so that it is not called for a stale token. The response is 412 if a
 * greater token was seen, 428 if there is no token, and 400 if it is not a number of at most 63 bits.
 *
 * The check runs before the handler. A later token may arrive while the handler is still running,
 * so pass the token to the write, too (`where fence <= $1`). Requests under shared leases need `raise: false`.
 *
 * @param fences The store of the greatest tokens. An error that it throws rejects the request.
 * @param resource Returns the resource of a request: its decoded, validated id, such as `orders:42`,
 * and not the URL, of which each spelling would have a fence of its own. An error that it throws with a
 * `statusCode` from 400 to 499 is answered with that status; a `URIError` is a 400.
 * @param options Whether tokens are remembered.
 * @returns A function that wraps a handler. The handler gets the token after the request, to pass it to its writes.
 * @throws {TypeError} If an argument or an option is bad; from the wrapped handler, if the resource is not a string.
 *
 * @example Usage
 * ```ts
 * import { fencedHttp, MemoryFences } from "@holdfast/lock/fencing";
 * import { assertEquals } from "@std/assert";
 *
 * const handler = fencedHttp(new MemoryFences(), () => "settings")(
 *   (_request, token) => new Response(`written under ${token}`),
 * );
 * const request = new Request("http://localhost/", { headers: { "if-fence": "7" } });
 * assertEquals(await (await handler(request)).text(), "written under 7");
 * ```
 */
export function fencedHttp(
  fences: FenceStore,
  resource: (request: Request) => string,
  options: FencedHttpOptions = {},
): <Rest extends unknown[]>(
  handler: (request: Request, token: bigint, ...rest: Rest) => Response | Promise<Response>,
) => (request: Request, ...rest: Rest) => Promise<Response> {
  const action = readTable("fencedHttp()", options, FENCED_HTTP_OPTIONS).raise ? "raise" : "check";
  if (typeof fences?.[action] !== "function" || typeof resource !== "function") {
    throw new TypeError(
      "Cannot use the arguments of fencedHttp(): they must be fences, such as new MemoryFences(), and a " +
        `function that names the resource of a request, but they are ${describe(fences)} and ` +
        describe(resource),
    );
  }
  return (handler) => async (request, ...rest) => {
    const header = request.headers.get(FENCE_HEADER);
    if (header === null) return rejection("token-required", 428, "Fencing token required");
    const token = readToken(header);
    if (token === null) return rejection("bad-request", 400, "Bad fencing token");
    const name = resourceOf(resource, request);
    if (name instanceof Response) return name;
    if (await fences[action](name, token)) return await handler(request, token, ...rest);
    return rejection("stale-token", 412, "Stale fencing token");
  };
}

/** Returns the name of the resource, or the response to a request that has none. */
function resourceOf(
  resource: (request: Request) => string,
  request: Request,
): string | Response {
  let name: unknown;
  try {
    name = resource(request);
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    return problemResponse(refusal);
  }
  if (typeof name === "string") return name;
  throw new TypeError(
    `Cannot check the fencing token: the resource must be a string, but it is of type ${typeof name}`,
  );
}

function readToken(text: string): bigint | null {
  const token = /^[0-9]{1,19}$/.test(text) ? BigInt(text) : null;
  return token !== null && token <= MAX_TOKEN ? token : null;
}

function rejection(
  kind: "token-required" | "bad-request" | "stale-token",
  status: number,
  title: string,
): Response {
  return problemResponse(problem(kind, { status, title }));
}
