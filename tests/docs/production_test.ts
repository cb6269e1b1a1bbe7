/**
 * `docs/production.md` lists every code of our errors, the errors of the platform that calls reject with, and
 * every reason of a lost lease.
 */
import { assert, assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, ROOT));
}

/** The members of a type of texts. */
function membersOf(type: string): string[] {
  const [, body = ""] = new RegExp(`export type ${type} =([^;]*);`).exec(
    read("core/contract/errors.ts"),
  )!;
  const members = Array.from(body.matchAll(/"([^"]+)"/g), ([, member = ""]) => member);
  assert(members.length >= 6, `${type}: ${members.length} members, too few`);
  return members;
}

Deno.test("docs/production.md has a row for each code, each reason, and each error of the platform", () => {
  const [, section = ""] = /^## Watch$([^]*?)^## /m.exec(read("docs/production.md"))!;
  const rows = section.split("\n").filter((line) => line.startsWith("|"));
  for (const code of membersOf("LockErrorCode")) {
    assertEquals(rows.filter((row) => row.includes(`\`${code}\``)).length, 1, code);
  }
  // These have no code of ours.
  for (const name of ["InvalidStateError", "AbortError", "NotSupportedError", "TypeError"]) {
    assertEquals(rows.filter((row) => row.startsWith(`| \`${name}\``)).length, 1, name);
  }
  for (const reason of membersOf("LeaseLostReason")) {
    assertEquals(rows.filter((row) => row.startsWith(`| \`"${reason}"\``)).length, 1, reason);
  }
});
