/**
 * The test of all order endpoints of the examples, for any framework and lock.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { FencedStore } from "../../examples/fenced_store.ts";
import { openLock } from "../../open/mod.ts";
import { waitUntil } from "../servers/wait.ts";
import { scaled } from "../time.ts";
import { type Place, type Program, startProgram } from "./programs.ts";

const REQUESTS = 30;
/** Other spellings of the order 42 in a URL, and orders that do not exist. */
const SPELLINGS = ["%34%32", "4%32", "42/", "42?a=b", "042", "%2042", "%ff", "a", "4%2F2"];

interface Answer {
  readonly status: number;
  readonly state: string;
}

async function post(url: string, order: string): Promise<Answer> {
  const response = await fetch(`${url}/orders/${order}`, { method: "POST" });
  const { state, title } = await response.json();
  return { status: response.status, state: state ?? title };
}

/** Asserts that a spelling is the order that was shipped before, or no order at all. */
async function assertShippedBefore(url: string, spelling: string): Promise<void> {
  const response = await fetch(`${url}/orders/${spelling}`, { method: "POST" });
  const text = await response.text();
  if (response.status === 200) assert(text.includes("shipped before"), text);
  else assert([400, 404].includes(response.status), `${spelling}: ${response.status} ${text}`);
}

/** How often the processes say that they shipped an order. */
function shipments(programs: readonly Program[], order: string): number {
  const start = `shipped ${order} under token `;
  return programs.flatMap(({ lines }) => lines.filter((line) => line.startsWith(start))).length;
}

/** Sends orders to two processes at once; fails unless each order is shipped once. */
export async function orderOnce(framework: string, place: Place): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const programs = [0, 1].map(() =>
    stack.use(startProgram(`web/${framework}.ts`, place, "--port", "0", "--work-ms", "100"))
  );
  const urls = await Promise.all(programs.map((program) => program.saying("Listening on ")));

  const others = [post(urls[0]!, "43"), post(urls[1]!, "44")];
  const answers = await Promise.all(
    Array.from({ length: REQUESTS }, (_, i) => post(urls[i % 2]!, "42")),
  );
  assertEquals(answers.filter(({ status }) => status === 201), [{ status: 201, state: "shipped" }]);
  // On a busy machine, the last waiters may exceed their `waitMs`.
  const allowed = ["200 shipped before", "201 shipped", "409 Busy"];
  for (const { status, state } of answers) assert(allowed.includes(`${status} ${state}`), state);
  assertEquals(await post(urls[1]!, "42"), { status: 200, state: "shipped before" });
  for (const spelling of SPELLINGS) await assertShippedBefore(urls[1]!, spelling);
  assertEquals((await Promise.all(others)).map(({ status }) => status), [201, 201]);

  // As if the holder had been suspended while another client acquired the lock.
  {
    using store = new FencedStore(`${place.dir}/holdfast-orders.db`);
    assert(store.write("orders:45", "in doubt", 2n ** 62n));
  }
  assertEquals((await post(urls[0]!, "45")).state, "somebody else was later");

  const missing = await fetch(`${urls[0]}/nothing`);
  await missing.body?.cancel();
  assertEquals(missing.status, 404);
  for (const program of programs) program.kill("SIGTERM");
  assertEquals(await Promise.all(programs.map(({ ended }) => ended)), [0, 0]);
  assertEquals(["42", "43", "44", "45"].map((order) => shipments(programs, order)), [1, 1, 1, 0]);
}

/**
 * Freezes a process while it ships an order, until another one that got the lock meanwhile is in the middle
 * of its own shipment; fails unless the order is shipped once.
 */
export async function orderOnceAfterFreeze(framework: string, place: Place): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const options = ["--port", "0", "--work-ms", String(scaled(500))];
  const programs = [0, 1].map(() =>
    stack.use(startProgram(`web/${framework}.ts`, place, ...options))
  );
  const urls = await Promise.all(programs.map((program) => program.saying("Listening on ")));
  const locks = stack.use(await openLock(place.env.HOLDFAST_URL!));
  const holder = async () => (await locks.query("orders:42")).holders[0]?.fencingToken ?? 0n;

  const first = post(urls[0]!, "42");
  first.catch(() => {}); // reported below, unless this fails before
  await waitUntil("the first process ships", async () => await holder() > 0n);
  programs[0]!.kill("SIGSTOP");
  // As if the freeze lasted longer than the TTL.
  const passed = await locks.request("orders:42", { steal: true }, (lease) => lease.fencingToken);
  const second = post(urls[1]!, "42");
  // If the first process had shipped before it was frozen, this one answers without a shipment.
  const answered = second.then(() => true, () => true);
  await waitUntil(
    "the second process ships",
    async () => await holder() > passed || await Promise.race([answered, false]),
  );
  programs[0]!.kill("SIGCONT");
  await Promise.all([first, second]);
  assertEquals(shipments(programs, "42"), 1);
}

/** The frameworks of the order endpoints. */
export const ENDPOINTS = ["fetch", "express", "koa", "fastify", "hono"];
