/**
 * Checks that the mutants still fit the code. Needs no server, so the gate runs it; only a soak runs the
 * mutants themselves.
 */
import { assertEquals } from "@std/assert";
import { LEAKING_SET, MUTANTS } from "../../testing/faults/mutants.ts";

for (const { title, changes } of [...MUTANTS, LEAKING_SET]) {
  Deno.test(`MUTANTS names texts that the code contains exactly once: ${title}`, () => {
    for (const [file, from] of changes) {
      const source = Deno.readTextFileSync(new URL(`../../${file}`, import.meta.url));
      assertEquals(source.split(from).length - 1, 1, `${file}: ${from}`);
    }
  });
}
