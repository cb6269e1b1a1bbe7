import { assertEquals } from "@std/assert";
import {
  decodeRecord,
  EMPTY_RECORD,
  encodeRecord,
  HELD_OFFSET,
  MARKS,
  RECORD_BYTES,
  WANTED_OFFSET,
} from "../../file/locked_file.ts";

const RECORD = {
  token: 1_795_216_967_916_034n,
  held: true,
  wanted: false,
  streak: 3,
  lockerId: "0123abcd",
  label: "billing-1",
};

Deno.test("decodeRecord() returns the record that encodeRecord() wrote, at a fixed width", () => {
  const labels = ["", "billing-1", '"\\', "日本語", "é".repeat(100), "😀".repeat(50), "\u2028"];
  for (const label of labels) {
    const bytes = encodeRecord({ ...RECORD, label });
    assertEquals(bytes.length, RECORD_BYTES);
    assertEquals(bytes.length, 643, "processes of all versions read the same files");
    assertEquals(decodeRecord(bytes), { ...RECORD, label });
    assertEquals(decodeRecord(encodeRecord({ ...RECORD, label }, "a name\n")).label, label);
  }
});

Deno.test("decodeRecord() reads the marks after each was overwritten with one byte", () => {
  const bytes = encodeRecord(RECORD);
  bytes.set(MARKS.not, HELD_OFFSET);
  bytes.set(MARKS.wanted, WANTED_OFFSET);
  assertEquals(decodeRecord(bytes), { ...RECORD, held: false, wanted: true });
});

Deno.test("decodeRecord() returns an empty record when the bytes are damaged", () => {
  const empty = { token: 0n, held: false, wanted: false, streak: 0, lockerId: "", label: "" };
  assertEquals(decodeRecord(new Uint8Array()), empty);
  assertEquals(decodeRecord(new TextEncoder().encode("not a record")), EMPTY_RECORD);
  assertEquals(decodeRecord(encodeRecord(RECORD).subarray(0, 30)), EMPTY_RECORD);
});
