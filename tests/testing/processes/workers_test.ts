import { assert, assertEquals } from "@std/assert";
import { startChild } from "../../../testing/processes/child.ts";
import { nowUs } from "../../../testing/processes/machine_clock.ts";
import { inversions, overlaps, tokenInversions } from "../../../testing/processes/workers.ts";

function held(token: string, startUs: number, endUs: number) {
  return { token, calledUs: 0, queuedUs: null, held: [startUs, endUs] as const };
}

Deno.test("overlaps() counts holds that overlap, or that lie within another", () => {
  assertEquals(overlaps([held("2", 5, 9), held("1", 1, 5)]), 0);
  assertEquals(overlaps([held("2", 4, 9), held("1", 1, 5)]), 1);
  assertEquals(overlaps([held("1", 1, 9), held("2", 2, 3), held("3", 4, 9)]), 2);
});

Deno.test("tokenInversions() counts tokens that are not greater than all earlier ones", () => {
  assertEquals(tokenInversions([held("10", 5, 9), held("9", 1, 5)]), 0);
  assertEquals(tokenInversions([held("1", 1, 2), held("3", 3, 4), held("2", 5, 6)]), 1);
  assertEquals(tokenInversions([held("1", 1, 2), held("1", 3, 4)]), 1);
});

Deno.test("inversions() counts waiters that were overtaken", () => {
  const grant = (token: string, calledUs: number, queuedUs: number | null) => ({
    token,
    calledUs,
    queuedUs,
  });
  assertEquals(inversions([grant("1", 0, null), grant("2", 1, 2), grant("3", 3, 4)]), 0);
  assertEquals(inversions([grant("1", 0, null), grant("3", 1, 2), grant("2", 3, 4)]), 1);
  assertEquals(
    inversions([grant("3", 1, 5), grant("2", 3, 4)]),
    0,
    "called before the other was in the queue",
  );
});

Deno.test("nowUs() reads the same clock in all processes", async () => {
  await using child = startChild(
    new URL("../../../testing/processes/testdata/now.ts", import.meta.url),
    null,
  );
  for (let i = 0; i < 3; i++) {
    const beforeUs = nowUs();
    await child.send("now");
    const thereUs = Number(await child.line());
    assert(beforeUs <= thereUs && thereUs <= nowUs());
  }
  assertEquals(await child.end(), 0);
  assertEquals(await child.line(), null);
});
