import { linesOutsideCode } from '../text/prose.ts';
import { sentencesOf, undressed } from '../text/sentences.ts';
import { DECLARATION } from './brackets.ts';

/** What a turn says, sorted by what kind of saying it is. Bullets, emphasis and a word of praise in front are taken off. */
export interface Statements {
  /** What the speaker is about to do: "Now let me update the tests", "接下来写文档". */
  readonly intentions: readonly string[];
  /** Titles: Markdown headings, bold lines, "Step 3: …". Empty when there are many: then the text lists, it does not turn. */
  readonly headings: readonly string[];
  /** Everything else. */
  readonly others: readonly string[];
  /** The last sentence of any kind. */
  readonly last: string;
}

/** More titles than this in one turn are the outline of a report or of a plan. */
const FEW = 3;
const PRAISE =
  /^(?:(?:good|great|perfect|excellent|ok(?:ay)?|alright|done|all good|nice|right|got it|so|und|gut|bien|parfait)\s*[,.!，。！—–-]*\s+|(?:太好了|很好|好的?|完美|不错|不錯)[,，。！!\s]+)+/iu;
const INTENTION =
  /^(?:now|next|then|first|finally|lastly|let me|let['’]s|i['’]ll|i will|i['’]m (?:now )?(?:going|moving|[a-z]+ing)|i (?:now )?(?:need|have|want) to|i now|we (?:now )?need to|we['’]ll|moving|onward|on to|proceed(?:ing)?|time (?:to|for)|start(?:ing)?|begin(?:ning)?|going to|dispatching|continuing|ahora|a continuación|luego|vamos a|voy a|jetzt|nun|als nächstes|danach|ich werde|maintenant|ensuite|puis|je vais)(?![\p{L}\p{N}])|^(?:现在|現在|接下来|接下來|接着|接著|然后|然後|下一步|下面|首先|最后|最後|开始|開始|让我|讓我|我来|我來|我先|我将|我將|我会|我會|次に|続いて|それでは)/iu;
const HEADING = /^\s*(?:#{1,6}\s+\S|\*\*[^*]+\*\*\s?:?\s{0,9}$|\*\*[^*]{1,60}\*\*\s*[:—–-])/u;
const LABEL =
  /^(?:(?:step|task|phase|stage|part|change|item|batch|round|fix|issue|paso|schritt|étape|ステップ)\s*#?\d+\s*[:—–.-]|(?:步骤|步驟|任务|任務|阶段|階段|第)\s*[\d一二三四五六七八九十]+\s*(?:[:：、.-]|步|项|項|个|個))/iu;
/** Purposes and what comes later: what is done "before", "to make sure" or "then" is not what is turned to now. */
const AFTERTHOUGHT =
  /\s(?:before|so that|so (?:i|we|it)\b|to (?:make sure|ensure|see if|check if|understand|verify)|because|since|(?:and )?(?:then|finally|afterwards|after that)\b)|[，,；;]\s*(?:然后|然後|再|接着|接著|最后|最後|之后|之後)/i;

export function statementsOf(text: string): Statements {
  const intentions: string[] = [];
  const headings: string[] = [];
  const others: string[] = [];
  let last = '';
  for (const line of linesOutsideCode(text)) {
    if (/^\s*(?:>|$)/.test(line) || DECLARATION.test(line)) continue;
    const isHeading = HEADING.test(line);
    for (const part of isHeading ? [line] : sentencesOf(line)) {
      const sentence = undressed(part).replace(PRAISE, '');
      if (sentence === '') continue;
      if (isHeading || LABEL.test(sentence)) headings.push(sentence);
      else if (INTENTION.test(sentence)) intentions.push(sentence);
      else others.push(sentence);
      last = sentence;
    }
  }
  return { intentions, headings: headings.length > FEW ? [] : headings, others, last };
}

const LATER =
  /^(?:next|then|finally|lastly|after that|afterwards|luego|danach|ensuite|puis|然后|然後|接着|接著|接下来|接下來|最后|最後|続いて)(?![\p{L}\p{N}])|^(?:然后|然後|接着|接著|接下来|接下來|最后|最後|続いて)/iu;

/** Whether an intention is for now: "then" and "finally" are, unless another one was stated before them. */
export const isNow = (intention: string, index: number): boolean => index === 0 || !LATER.test(intention);

/** The part of a stated intention that says what is done now. */
export const mainClause = (intention: string): string => intention.split(AFTERTHOUGHT)[0] ?? '';
