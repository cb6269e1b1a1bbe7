import { assertEquals } from "@std/assert";
import { readRecord } from "../../../testing/interop/record.ts";

Deno.test("readRecord() counts sections, handoffs, overlaps and inversions", () => {
  const lines = ["enter a 0", "leave a 0", "enter b 1", "leave b 1", "enter b 2", "leave b 2"];
  const good = readRecord(`${lines.join("\n")}\n`);
  assertEquals([...good.sections], [["a", 1], ["b", 2]]);
  assertEquals([...good.handoffs], [["a→b", 1]]);
  assertEquals([good.overlaps, good.inversions], [0, 0]);
  const bad = readRecord("enter a 0\nenter b 2\nleave a 0\nenter c 1\nleave b 2\nleave c 1\nent");
  assertEquals([bad.overlaps, bad.inversions], [2, 1]);
});
