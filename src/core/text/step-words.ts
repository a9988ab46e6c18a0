import { getOwn } from '../../base/collections.ts';

/** What a word says about a step. */
type WordClass =
  /** Names of a step, before its number or its state: "Step 2", "task complete". */
  | 'step'
  /** May come before such a name: "the", "this". */
  | 'the'
  /** Leaves a state as it is: "is", "all", "successfully". */
  | 'filler'
  /** Turns "done" into its opposite. */
  | 'not'
  | 'done'
  /** Not done, in a single word. */
  | 'open'
  | 'failed'
  | 'skipped'
  | 'blocked'
  | 'progress'
  /** A state that is no marker, but no description of a step either. */
  | 'waiting'
  /** In prose it reports something as finished; in a tag it is something else. */
  | 'reported';

/**
 * What models write about the state of a step, by language: the one list that markers, vetoes, status tags,
 * declarations, reports in prose and the understanding of people are built from. Forms are composed of these words,
 * never listed; a new word is added here and in a test. Lower case, separated by commas.
 */
export const STEP_WORDS = {
  en: {
    step: 'step, task, subtask, phase, stage, item, work, job, status, state',
    the: 'the, this, current, my, that',
    filler: 'is, are, has been, have been, was, now, all, fully, successfully, already, both, everything, it is, with',
    not: "not, not yet, not fully, not quite, isn't, isn’t, is not, is not yet, still not",
    done: 'done, complete, completed, finished',
    open: 'incomplete, unfinished',
    failed: 'failed, failure',
    skipped: 'skip, skipped',
    blocked: 'blocked, stuck',
    progress: 'progress',
    waiting: 'pending, running, todo, in progress, undone',
    reported: 'approved, verified, landed',
  },
  zh: {
    step: '步骤, 步驟, 任务, 任務, 阶段, 階段, 步, 工作, 状态, 狀態',
    the: '当前, 當前, 本, 该, 該, 此, 这个, 這個, 这一, 這一',
    filler: '已, 已经, 已經, 全部, 均, 都, 完全, 顺利, 順利, 成功',
    not: '未, 尚未, 还没, 還沒, 还没有, 還沒有, 没有, 沒有, 没, 沒, 还未, 還未, 并未, 並未',
    done: '完成, 结束, 結束, 做完, 完毕, 完畢, 搞定',
    failed: '失败, 失敗',
    skipped: '跳过, 跳過, 略过, 略過',
    blocked: '受阻, 阻塞, 卡住, 阻断, 阻斷, 被阻塞, 被卡住',
    progress: '进度, 進度',
    waiting: '进行中, 進行中',
  },
  ja: {
    step: 'ステップ, タスク, 作業',
    the: 'この, 現在の',
    filler: 'は, が, の, すべて, 全て',
    not: '未',
    done: '完了, 終了, 済み, 完了済み, 完了しました, 完了です',
    blocked: 'ブロック',
    skipped: 'スキップ',
    failed: '失敗',
  },
  ko: {
    step: '단계, 작업',
    filler: '모두, 전부',
    not: '미',
    done: '완료, 완료됨, 완료했습니다',
    failed: '실패',
    blocked: '막힘',
  },
  es: {
    step: 'paso, tarea',
    the: 'el, este, la, esta',
    filler: 'está, ya, todo',
    not: 'no, aún no',
    done: 'hecho, completado, completada, terminado, terminada, listo, lista, finalizado',
    failed: 'fallido, fallida',
    blocked: 'bloqueado, bloqueada',
  },
  pt: {
    step: 'passo, tarefa, etapa',
    filler: 'já, tudo',
    not: 'não, ainda não',
    done: 'feito, feita, concluído, concluída, finalizado, finalizada',
    failed: 'falhou',
    blocked: 'bloqueada',
  },
  fr: {
    step: 'étape, tâche',
    the: "l'étape, l’étape, cette, la",
    filler: 'est, tout, déjà',
    not: 'pas, pas encore, non',
    done: 'terminé, terminée, fait, faite, fini, finie, achevé, achevée',
    failed: 'échec, échoué, échouée',
    blocked: 'bloqué, bloquée',
  },
  de: {
    step: 'schritt, aufgabe',
    the: 'der, dieser, die, diese',
    filler: 'ist, alles, bereits',
    not: 'nicht, noch nicht',
    done: 'erledigt, fertig, abgeschlossen, fertiggestellt',
    open: 'unfertig, unvollständig',
    failed: 'fehlgeschlagen, gescheitert',
    blocked: 'blockiert',
  },
  it: {
    step: 'passaggio, compito',
    filler: 'è',
    not: 'non',
    done: 'fatto, completato, completata, finito',
    blocked: 'bloccato',
  },
  ru: {
    step: 'шаг, задача, этап',
    filler: 'уже, всё, все',
    not: 'не, ещё не, еще не',
    done: 'готово, готов, готова, выполнено, выполнен, выполнена, завершено, завершён, завершен, завершена, сделано',
    failed: 'ошибка, не удалось',
    blocked: 'заблокировано, заблокирован',
  },
} satisfies Readonly<Record<string, Partial<Record<WordClass, string>>>>;

/** The words of a class in all languages, the longest first. */
const wordsOf = (name: WordClass): string[] =>
  [
    ...new Set(
      Object.values<Partial<Record<WordClass, string>>>(STEP_WORDS).flatMap(
        (own) => getOwn(own, name)?.split(', ') ?? [],
      ),
    ),
  ].sort((one, other) => other.length - one.length);

const UNSPACED = /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}/u;

/**
 * An alternative of the words of these classes, as the source of an expression with the flags `i` and `u`. A word of a
 * script with spaces is whole.
 */
export function anyWordOf(...names: WordClass[]): string {
  const all = names.flatMap(wordsOf);
  const unspaced = all.filter((word) => UNSPACED.test(word));
  const plain = all.filter((word) => /^[a-z].*[a-z]$/.test(word));
  const accented = all.filter((word) => !unspaced.includes(word) && !plain.includes(word));
  const parts = [
    ...(plain.length > 0 ? [`\\b(?:${plain.join('|')})(?![\\p{L}\\p{N}_])`] : []),
    ...(accented.length > 0
      ? [`(?:${accented.join('|')})(?<![\\p{L}\\p{N}_](?:${accented.join('|')}))(?![\\p{L}\\p{N}_])`]
      : []),
    ...unspaced,
  ];
  return `(?:${parts.join('|')})`;
}

/** An expression of such words, with the flags `i` and `u`: made by its first use, since making all of them is slow. */
export function wordPattern(source: () => string): () => RegExp {
  let made: RegExp | undefined;
  return () => {
    made ??= new RegExp(source(), 'iu');
    return made;
  };
}

const STATES = ['done', 'open', 'failed', 'skipped', 'blocked', 'progress'] as const;
const NUMERAL = '[一二三四五六七八九十]';
const GAP = '[\\s_#-]{0,3}';
const SEPARATOR = '\\s?(?:[:：–—]|\\s-\\s|-\\s)?\\s?';
const TAG = wordPattern(() => {
  // "Step 2", "step 2 of 5", "第二步", "this task": which step is meant; its group is the number.
  const subject = `(?:${anyWordOf('the')}${GAP}){0,2}(?:(?:第\\s?)?${anyWordOf('step')}|第(?=\\s?(?:\\d|${NUMERAL})))${GAP}(?:(\\d{1,3}|${NUMERAL})(?!\\d)(?:\\s?(?:/|of|von|de|из)\\s?\\d{1,3}(?!\\d))?\\s?(?:步骤|步驟|步|个|個|项|項)?)?`;
  const fillers = `(?:${anyWordOf('filler')}\\s?){0,3}`;
  const state = `(?:(?<not>${anyWordOf('not')})\\s?${fillers}(?=${anyWordOf('done')}))?(?:${STATES.map((name) => `(?<${name}>${anyWordOf(name)})`).join('|')})`;
  return `^(?:${subject}${SEPARATOR})?${fillers}${state}`;
});

export interface StatedStep {
  readonly state: (typeof STATES)[number];
  /** The number before it, as it was written. */
  readonly number?: string;
  /** What follows the word of the state. */
  readonly rest: string;
}

/**
 * The state that a text begins with: "Done: five links", "Step 2 of 5 is complete", "当前步骤已完成", "Not yet finished";
 * undefined if it begins with none. "Not done" is the state `open`.
 */
export function readStepState(text: string): StatedStep | undefined {
  const found = TAG().exec(text);
  const groups = found?.groups;
  const state = STATES.find((name) => groups?.[name] !== undefined);
  if (!found || !state) return undefined;
  const number = found[1];
  return {
    state: groups?.not === undefined ? state : 'open',
    ...(number !== undefined && { number }),
    rest: text.slice(found[0].length),
  };
}
