import { assertEquals } from "@std/assert";
import { decideInstall } from "../../../testing/servers/find_apt.ts";

const SITUATION = { isRefused: false, canInstall: true, isTerminal: false };

Deno.test("decideInstall() installs at once without a terminal", () => {
  assertEquals(decideInstall(SITUATION), "install");
});

Deno.test("decideInstall() warns first on a terminal", () => {
  assertEquals(decideInstall({ ...SITUATION, isTerminal: true }), "warn and install");
});

Deno.test("decideInstall() installs nothing after a refusal, with or without a terminal", () => {
  for (const isTerminal of [true, false]) {
    assertEquals(decideInstall({ ...SITUATION, isTerminal, isRefused: true }), "refused");
  }
});

Deno.test("decideInstall() returns impossible where nothing can be installed, unless it was refused", () => {
  assertEquals(decideInstall({ ...SITUATION, canInstall: false }), "impossible");
  const refused = { ...SITUATION, canInstall: false, isRefused: true };
  assertEquals(decideInstall(refused), "refused");
});
