// 95 % intervals of sums of samples, as `crates/analyze/src/cut/interval.rs` has them: each state of each thread is a stratum whose
// total is known, its samples say how that divides.

/** Quantile of the normal distribution for 95 %. */
const Z = 1.96;

/** Sums and sums of squares of weights, by number. */
class Sums {
  readonly sum: number[] = [];
  readonly squares: number[] = [];

  add(at: number, weight: number, perSample: number): void {
    this.sum[at] = (this.sum[at] ?? 0) + weight;
    this.squares[at] = (this.squares[at] ?? 0) + weight * perSample;
  }
}

export class Intervals {
  private readonly whole = new Sums();
  private readonly cells = new Sums();
  /** Group and stratum, to the number of their cell. */
  private readonly numbers = new Map<number, number>();
  private readonly strata: number[] = [];
  private readonly ofGroup: number[][] = [];

  constructor(private readonly count: number) {}

  /** A part of all of a stratum's samples. */
  addAll(stratum: number, weight: number, perSample: number): void {
    this.whole.add(stratum, weight, perSample);
  }

  /** A part of a group. */
  add(group: number, stratum: number, weight: number, perSample: number): void {
    const name = group * this.count + stratum;
    let cell = this.numbers.get(name);
    if (cell === undefined) {
      cell = this.strata.length;
      this.numbers.set(name, cell);
      this.strata.push(stratum);
      (this.ofGroup[group] ??= []).push(cell);
    }
    this.cells.add(cell, weight, perSample);
  }

  /** The interval of these groups together. `endsOnly`: they are ranges of time, whose sums are off only by the samples next to
   * their ends. */
  of(groups: Iterable<number>, value: number, endsOnly: boolean): [low: number, high: number] {
    const parts = new Map<number, [sum: number, squares: number]>();
    for (const group of groups) {
      for (const cell of this.ofGroup[group] ?? []) {
        const stratum = this.strata[cell] as number;
        const [sum, squares] = parts.get(stratum) ?? [0, 0];
        parts.set(stratum, [sum + (this.cells.sum[cell] as number), squares + (this.cells.squares[cell] as number)]);
      }
    }
    let [variance, room] = [0, 0];
    for (const [stratum, [sum, squares]] of parts) {
      const [all, allSquares] = [this.whole.sum[stratum] ?? 0, this.whole.squares[stratum] ?? 0];
      room += Math.max(0, all - sum);
      if (allSquares <= 0 || all <= 0) continue;
      if (endsOnly) {
        variance += sum > 0 ? (squares / sum) ** 2 : 0;
        continue;
      }
      // As many samples as the weights are worth (Kish), with two more of either kind (Agresti and Coull).
      const worth = (all * all) / allSquares;
      const share = (Math.min(1, Math.max(0, sum / all)) * worth + 2) / (worth + 4);
      variance += (all * all * share * (1 - share)) / (worth + 4);
    }
    const half = Z * Math.sqrt(variance);
    return [Math.min(value, Math.max(0, Math.round(value - half))), Math.max(value, Math.round(value + Math.min(half, room)))];
  }
}
