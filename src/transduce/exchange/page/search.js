// Greedy search and beam search, as `transduce translate` has them.

/** Returns ((5 + length) / 6)^alpha, the end symbol counted (Wu et al. 2016, equation 14). */
function lengthPenalty(length, alpha) {
  return ((5 + length) / 6) ** alpha;
}

/** Returns the index of the largest number, the first of equals. */
function largest(numbers) {
  let best = 0;
  for (let i = 1; i < numbers.length; i++) if (numbers[i] > numbers[best]) best = i;
  return best;
}

/** Returns the logarithm of the sum of exponentials. */
function logSum(numbers) {
  const most = numbers[largest(numbers)];
  let sum = 0;
  for (let i = 0; i < numbers.length; i++) sum += Math.exp(numbers[i] - most);
  return most + Math.log(sum);
}

/** Returns `[token, number]` of the `count` largest numbers, best first. */
function topTokens(numbers, count) {
  const best = [];
  for (let token = 0; token < numbers.length; token++) {
    if (best.length === count && numbers[token] <= best[count - 1][1]) continue;
    let place = best.length;
    while (place > 0 && best[place - 1][1] < numbers[token]) place--;
    best.splice(place, 0, [token, numbers[token]]);
    if (best.length > count) best.pop();
  }
  return best;
}

/** Makes the logits of tokens −∞ that may not stand at a place, counted from 0. */
function ban(logits, { banned, bannedFirst }, place) {
  for (const token of place === 0 ? [...banned, ...bannedFirst] : banned) logits[token] = -Infinity;
}

/**
 * Returns the tokens of a translation, without the end symbol.
 *
 * `stepper.step(tokens)` appends a token to each row and resolves to the logits of each row; `stepper.pick(rows)` keeps
 * rows; it begins with one row. `breathe` resolves to false where the translation is not wanted any more.
 */
export async function search(stepper, problem, breathe) {
  return problem.beam > 1 ? beamSearch(stepper, problem, breathe) : greedySearch(stepper, problem, breathe);
}

async function greedySearch(stepper, problem, breathe) {
  const tokens = [];
  while (tokens.length < problem.bound && (await breathe())) {
    const [logits] = await stepper.step([tokens.at(-1) ?? problem.begin]);
    ban(logits, problem, tokens.length);
    const token = largest(logits);
    if (token === problem.end) break;
    tokens.push(token);
  }
  return tokens;
}

async function beamSearch(stepper, problem, breathe) {
  const { bound, beam, alpha, end } = problem;
  let live = [{ tokens: [], total: 0 }];
  let finished = { tokens: [], score: -Infinity };
  for (let length = 1; length <= bound && live.length && (await breathe()); length++) {
    const logits = await stepper.step(live.map(({ tokens }) => tokens.at(-1) ?? problem.begin));
    const candidates = expand(live, logits, problem);
    for (const { tokens, total } of candidates.filter((candidate) => candidate.tokens.at(-1) === end)) {
      const score = total / lengthPenalty(length, alpha);
      if (score > finished.score) finished = { tokens: tokens.slice(0, -1), score };
    }
    live = candidates.filter((candidate) => candidate.tokens.at(-1) !== end).slice(0, beam);
    if (length === bound && finished.score === -Infinity) finished = live[0];
    // A hypothesis that can no longer have a better score than the finished one is dropped.
    live = live.filter(({ total }) => total / lengthPenalty(bound, alpha) >= finished.score);
    if (live.length) stepper.pick(live.map(({ row }) => row));
  }
  return finished.tokens;
}

/** Returns the most probable continuations of live hypotheses by one token, best first. */
function expand(live, logits, problem) {
  const count = 2 * problem.beam; // at most one continuation of each hypothesis ends
  const candidates = live.flatMap(({ tokens, total }, row) => {
    const normaliser = logSum(logits[row]);
    ban(logits[row], problem, tokens.length);
    return topTokens(logits[row], count).map(([token, logit]) => ({ tokens: [...tokens, token], total: total + logit - normaliser, row }));
  });
  return candidates.sort((left, right) => right.total - left.total).slice(0, count);
}
