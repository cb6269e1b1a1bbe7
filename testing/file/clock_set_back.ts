/**
 * The wall clock of this process, as the file locks read it.
 *
 * @module
 */

/** Sets it back until disposal. */
export function setClockBack(byMs: number): Disposable {
  const now = Temporal.Now.instant;
  Temporal.Now.instant = () => now().subtract({ milliseconds: byMs });
  return {
    [Symbol.dispose]: () => {
      Temporal.Now.instant = now;
    },
  };
}
