import type { IntentLanguage } from './lexicons.ts';

/** For each language the verbs whose misspellings are recognised, and the words one slip away that are none. */
const VERBS: Partial<Record<IntentLanguage, { verbs: string; others: string }>> = {
  en: {
    verbs: 'stop pause continue resume proceed cancel please undo wait',
    others:
      'pease lease pleased pleaser pleases prease presume proceeds resumed resumer resumes relume cancels cancer cannel carcel chancel continua continued continuer continues continuo continu continuez continuen contigue stoop cancela cancele cancelo resumen resumi resumo rezume canela candela nudo',
  },
  es: { verbs: 'continua continuar detente reanuda cancela', others: 'candela canela decente demente retente devente' },
  de: {
    verbs: 'weiter weitermachen fortfahren fortsetzen aufhoren abbrechen anhalten',
    others:
      'reiter waiter weeter welter wester wetter whiter writer zweiter abhalten innehalten inhalten anhaften fortfuhren anbrechen',
  },
  fr: {
    verbs: 'continue continuez continuer arrete arretez reprends',
    others: 'arete ariete barrete jarrete deprends meprends rarete repends apprends contenue',
  },
  pt: { verbs: 'continua continue continuar prossiga cancela', others: 'candela canela prosiga contenue' },
  ru: { verbs: 'продолжай продолжайте продолжить остановись остановите подожди отмени', others: '' },
};
const TABLE = new Map(
  Object.entries(VERBS).map(([language, { verbs, others }]) => [
    language,
    { verbs: verbs.split(' '), others: new Set(others.split(' ')) },
  ]),
);

/**
 * The verb that an unknown word misspells by one edit or by two letters exchanged; undefined if the word is one of its
 * own, or none of our verbs.
 */
export function misspelledVerb(word: string, language: IntentLanguage): string | undefined {
  const table = TABLE.get(language);
  if (!table || word.length < 4 || !/^\p{L}+$/u.test(word) || table.others.has(word)) return undefined;
  return table.verbs.find(
    (verb) => Math.abs(verb.length - word.length) <= 1 && isOneSlip(word, verb, language !== 'en'),
  );
}

/** Of a shorter word nearly every edit is another word: only letters exchanged or doubled count there. */
const SHORT = 5;

/**
 * Whether a word is another with one letter added, left out or replaced, or with two neighbours exchanged. In languages
 * that inflect, other letters at the end are another form of the word.
 */
export function isOneSlip(word: string, meant: string, inflects = false): boolean {
  const [short, long] = word.length <= meant.length ? [word, meant] : [meant, word];
  let at = 0;
  while (at < short.length && short[at] === long[at]) at += 1;
  if (short[at] === long[at + 1] && short[at + 1] === long[at] && short.slice(at + 2) === long.slice(at + 2))
    return true;
  if (inflects && at >= meant.length - 3) return false;
  if (long.length > short.length) {
    const isDoubled = long === word && long[at] === long[at - 1];
    return short.slice(at) === long.slice(at + 1) && (meant.length > SHORT || isDoubled);
  }
  return meant.length > SHORT && short.slice(at + 1) === long.slice(at + 1);
}
