import { assert, assertEquals, assertMatch } from "@std/assert";
import { observing } from "../../../testing/zookeeper/observer.ts";
import { isAlive } from "../../../testing/servers/process_checks.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import {
  startZooKeeperEnsemble,
  zooKeeperEnsembleSkip,
} from "../../../testing/servers/zookeeper_ensemble.ts";

const skip = await zooKeeperEnsembleSkip();
const ignore = skip !== undefined;
const note = skip ? ` [${skip}]` : "";

Deno.test({
  name: `startZooKeeperEnsemble() has another leader after the first was killed${note}`,
  ignore,
  async fn() {
    const ensemble = await startZooKeeperEnsemble();
    const { members, connectString } = ensemble;
    assertEquals((await ensemble.followers()).length, 2);
    const first = await ensemble.leader();
    await observing(connectString, (observer) => observer.make("/kept"));
    await first.kill();
    const second = await ensemble.leader();
    assert(second !== first);
    assertEquals(await ensemble.modeOf(first), null);
    await first.restart();
    await ensemble.ready();
    assertEquals(await ensemble.modeOf(first), "follower");
    await observing(first.connectString, async (observer) => {
      await observer.make("/kept/after"); // After a write, the member has seen all earlier writes.
      assertEquals(await observer.children("/kept"), ["after"]);
    });
    const pids = members.map(({ pid }) => pid);
    await ensemble[Symbol.asyncDispose]();
    for (const pid of pids) assertEquals(await isAlive(pid), false);
  },
});

Deno.test({
  name:
    `ZooKeeperEnsemble.cutOff() leaves a follower that answers stale reads until rejoin()${note}`,
  ignore,
  async fn() {
    await using ensemble = await startZooKeeperEnsemble({ canCutOff: true, syncLimitTicks: 300 });
    const [follower, other] = await ensemble.followers();
    await observing(ensemble.connectString, (observer) => observer.make("/before"));
    await observing(
      other!.connectString,
      (others) =>
        observing(follower!.connectString, async (observer) => {
          await waitUntil("the follower knows of the write", () => observer.exists("/before"));
          ensemble.cutOff(follower!);
          await others.make("/after");
          assertEquals(await observer.exists("/before"), true);
          assertEquals(
            await observer.exists("/after"),
            false,
            "the follower cannot know of this write",
          );
          assertMatch(await follower!.fourLetterWord("srvr"), /^Mode: follower$/m);
          ensemble.rejoin(follower!);
          await waitUntil(
            "the follower knows of the write",
            () => observer.exists("/after").catch(() => false),
          );
        }),
    );
  },
});
