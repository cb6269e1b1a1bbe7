import { assert, assertEquals } from "@std/assert";
import { type Shown, untilShown, watchStalls } from "../../testing/processes/stalls.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import {
  type Instance,
  type LockForm,
  type LockPlace,
  startInstance,
} from "../../testing/http/lambda_instances.ts";
import { CONDITION_BOUND_MS, scaled } from "../../testing/time.ts";

const FORMS: readonly LockForm[] = ["shared", "factory"];
const GATEWAY = { version: "2.0", requestContext: { http: { method: "PUT" } } };

async function open(form: LockForm, count: number) {
  await using stack = new AsyncDisposableStack();
  const dir = await Deno.makeTempDir({ prefix: "holdfast-" });
  stack.defer(() => Deno.remove(dir, { recursive: true }));
  const place: LockPlace = { strategy: "file", dir };
  const instances: Instance[] = [];
  while (instances.length < count) instances.push(stack.use(await startInstance(place, form)));
  const owned = stack.move();
  return { instances, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

Deno.test("lambdaLock() runs one invocation at a time over three instances with lock files", async () => {
  for (const form of FORMS) {
    await using stage = await open(form, 3);
    const held: { token: bigint; held: [number, number] }[] = [];
    await Promise.all(stage.instances.map(async (instance) => {
      for (let i = 0; i < 15; i++) {
        const { ok, value } = await instance.invoke({
          key: "k",
          options: { waitMs: CONDITION_BOUND_MS },
        });
        assert(ok);
        held.push({ token: BigInt(value.token), held: value.held });
      }
    }));
    held.sort((a, b) => a.held[0] - b.held[0]);
    for (let i = 1; i < held.length; i++) {
      assert(held[i - 1]!.held[1] <= held[i]!.held[0], "the invocation before it was over");
      assert(held[i - 1]!.token < held[i]!.token, "tokens grow");
    }
    assertEquals(held.length, 45);
    for (const instance of stage.instances) assertEquals(await instance.finish(), 0);
  }
});

Deno.test("lambdaLock() with lock files frees the lock after a loss, an error or a kill of its holder", async () => {
  for (const form of FORMS) await untilShown(() => freesLock(form));
});

async function freesLock(form: LockForm): Promise<Shown> {
  using stalls = watchStalls();
  await using stage = await open(form, 2);
  const [first, second] = stage.instances as [Instance, Instance];
  for (const instance of stage.instances) await instance.invoke({ key: "warm" });
  // The lease ends after 2 s, and the answer has 5 s.
  const options = { marginMs: scaled(5_000) };
  const reply = first.invoke({ id: "a", key: "k", mode: "gate", options }, scaled(7_000));
  const { killedAtMs } = await first.report("a", "entered");
  const busy = await second.invoke({ ...GATEWAY, key: "k" });
  if (busy.value.statusCode !== 409 && stalls.longestMs > scaled(500)) {
    await reply;
    return "stalled";
  }
  assertEquals(busy.value.statusCode, 409);
  const { value: lost } = await reply; // its time has run out
  assert(Date.now() < killedAtMs!);
  assertEquals(lost.reason, "lease-lost");
  assertEquals((await first.report("a", "aborted")).reason, "max-hold");
  const { value: failed } = await second.invoke({ key: "k", mode: "throw" });
  assertEquals(failed.errorMessage, "The handler has failed");
  first.invoke({ id: "b", key: "k", mode: "gate" });
  await first.report("b", "entered");
  first.kill("SIGKILL");
  assert((await second.invoke({ key: "k", options: { waitMs: CONDITION_BOUND_MS } })).ok);
  return "shown";
}

Deno.test("lambdaLock() with lock files loses and frees the lock when its instance wakes after its invocation", async () => {
  await using stage = await open("factory", 2);
  const [frozen, other] = stage.instances as [Instance, Instance];
  for (const instance of stage.instances) await instance.invoke({ key: "warm" });
  const reply = frozen.invoke({ id: "a", key: "k", mode: "gate" }, scaled(2_500));
  const { token, killedAtMs } = await frozen.report("a", "entered");
  frozen.kill("SIGSTOP");
  await frozen.open("a");
  await waitUntil("its time is over", () => Date.now() > killedAtMs!);
  // A file has no TTL: the lock is held until the holder wakes, or dies.
  assertEquals((await other.invoke({ ...GATEWAY, key: "k" })).value.statusCode, 409);
  frozen.kill("SIGCONT");
  const { throws, aborted } = await frozen.report("a", "left");
  assertEquals([throws, aborted], ["LeaseLostError", true]);
  assertEquals((await reply).value.reason, "lease-lost");
  const next = await other.invoke({ key: "k", options: { waitMs: CONDITION_BOUND_MS } });
  assert(BigInt(next.value.token) > BigInt(token!));
});
