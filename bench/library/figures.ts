/**
 * Measured figures, as they are stored, and how tables and plots select them.
 *
 * @module
 */

/** Where a figure was measured, such as `{ client: "ioredis", calls: 64 }`. */
export type Place = Readonly<Record<string, string | number>>;

/** The need of one contender in one place. */
export interface Figure {
  readonly contender: string;
  readonly at: Place;
  /** The quantity with its unit, such as `µs per cycle`. */
  readonly measure: string;
  /** One value per round. */
  readonly values: readonly number[];
}

/** The conditions that a figure must meet. */
export interface Wanted {
  readonly contender?: string;
  readonly measure?: string;
  readonly at?: Place;
}

/** Whether a figure meets all conditions. */
export function matches(figure: Figure, { contender, measure, at = {} }: Wanted): boolean {
  return (contender === undefined || figure.contender === contender) &&
    (measure === undefined || figure.measure === measure) &&
    Object.entries(at).every(([key, value]) => figure.at[key] === value);
}

/** The values of the first figure that meets the conditions; none if there is no such figure. */
export function valuesOf(figures: readonly Figure[], wanted: Wanted): readonly number[] {
  return figures.find((figure) => matches(figure, wanted))?.values ?? [];
}

/** Collects the values of rounds. */
export class FigureBook {
  readonly #figures = new Map<string, Figure & { readonly values: number[] }>();

  /** Adds the values of one round. */
  add(contender: string, at: Place, values: Readonly<Record<string, number>>): void {
    for (const [measure, value] of Object.entries(values)) {
      const key = JSON.stringify([contender, at, measure]);
      const figure = this.#figures.get(key) ?? { contender, at, measure, values: [] };
      figure.values.push(value);
      this.#figures.set(key, figure);
    }
  }

  /** All figures so far. */
  list(): Figure[] {
    return [...this.#figures.values()];
  }
}
