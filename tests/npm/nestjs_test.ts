/** A NestJS application of a user: TypeScript with decorators, compiled to CommonJS, on Node. */
import { assert, assertEquals, assertGreaterOrEqual } from "@std/assert";
import { COMPILERS } from "../../testing/npm/consumers.ts";
import { installSkip } from "../../testing/npm/install.ts";
import {
  compileNestApp,
  NEST_VERSIONS,
  nestPackages,
  nestProject,
} from "../../testing/npm/nest_app.ts";
import { PACKAGE } from "../../testing/npm/project.ts";
import { NODE_22, programOf, RUNTIMES, runtimeSkip } from "../../testing/npm/runtimes.ts";

const REQUESTS = 40;
const isSoak = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const runtimeSkips = await Promise.all(RUNTIMES.map(runtimeSkip));

/** The answer of the application. */
interface Shipped {
  readonly token: string;
  readonly held: readonly [fromMs: number, toMs: number];
}

async function post(url: string): Promise<[status: number, answer: Shipped]> {
  const response = await fetch(url, { method: "POST" });
  return [response.status, await response.json()];
}

for (const version of isSoak ? NEST_VERSIONS : NEST_VERSIONS.slice(0, 1)) {
  const skips = await Promise.all(nestPackages(version).map(installSkip));
  const skip = [...skips, ...runtimeSkips].find((reason) => reason !== undefined);
  Deno.test({
    name: `@Lock() of the npm package works in CommonJS with ${version.name} on Node 22` +
      (skip === undefined ? "" : ` [skipped: ${skip}]`),
    ignore: skip !== undefined,
    async fn() {
      await using app = await compileNestApp(version, COMPILERS[isSoak ? 0 : 1]); // the newest is faster
      await using a = await app.start(NODE_22);
      await using b = await app.start(NODE_22);
      assertEquals(a.log.filter((line) => /\b(WARN|ERROR)\b/.test(line)), []);
      const answers = await Promise.all(Array.from({ length: REQUESTS }, (_, i) => {
        return post(`${i % 2 ? a.url : b.url}/orders/42`);
      }));
      assertEquals(answers.map(([status]) => status), Array(REQUESTS).fill(201));
      const sorted = answers.map(([, answer]) => answer).toSorted((one, other) =>
        Number(BigInt(one.token) - BigInt(other.token))
      );
      for (const [i, { token, held: [fromMs] }] of sorted.entries()) {
        if (i === 0) continue;
        assert(BigInt(token) > BigInt(sorted[i - 1]!.token));
        assertGreaterOrEqual(fromMs, sorted[i - 1]!.held[1], "no two requests at a time");
      }
      const back = await fetch(`${a.url}/returns/42`, { method: "POST" });
      assertEquals([back.status, (await back.json()).locked], [201, "orders:42"]);
      for (const id of ["042", "a", "4%2F2"]) {
        assertEquals((await post(`${a.url}/orders/${id}`))[0], 404);
      }
    },
  });
}

const skip = runtimeSkips.find((reason) => reason !== undefined) ??
  await installSkip(NEST_VERSIONS[0]!.specs);

Deno.test({
  name: "the entry for NestJS loads on each runtime, as an ES module and by require()" +
    (skip === undefined ? "" : ` [skipped: ${skip}]`),
  ignore: skip !== undefined,
  async fn() {
    await using project = await nestProject(NEST_VERSIONS[0]!);
    const entry = `${PACKAGE}/http/nestjs`;
    const names = ["HeldLease", "LOCKS", "Lock", "LockInterceptor", "NO_LOCK", "RunOnce"];
    for (const runtime of RUNTIMES) {
      for (const script of ["load.mjs", "load.cjs"]) {
        const path = await project.copy(script);
        const { output } = await project.run([await programOf(runtime), path, entry]);
        assertEquals(JSON.parse(output.split("\n")[0]!), { [entry]: names }, runtime.name);
      }
    }
  },
});
