/**
 * The phrases that determine what a whole message means. They are matched against a message that is trimmed,
 * lower-cased and has its inner space collapsed; see `intent.ts` for what may stand around them.
 */

const anyOf = (...phrases: string[]): string => phrases.join('|');

/** Polite and agreeing words that may open a message without changing its meaning. */
export const OPENING = anyOf(
  ...[
    'please',
    'pls',
    'ok',
    'okay',
    'yes',
    'yeah',
    'yep',
    'sure',
    'alright',
    'fine',
    'great',
    'good',
    'thanks',
    "let['’]s",
    'you can',
    'now',
  ],
  ...[
    '好的?',
    '行',
    '可以',
    '嗯',
    '是的?',
    '没问题',
    '沒問題',
    '请你?',
    '請你?',
    '麻烦你?',
    '麻煩你?',
    '那就?',
    '那么',
    '那麼',
  ],
  ...['はい', 'por favor', 'sí', 'vale', 'bitte', 'ja', 'gut', "s['’]il (?:te|vous) pla[iî]t", 'oui', "d['’]accord"],
);
/** … and those that may close it. */
export const CLOSING = anyOf(
  ...[
    'please',
    'pls',
    'now',
    'then',
    'thanks',
    'thank you',
    'ok',
    '吧',
    '了',
    '啦',
    '谢谢',
    '謝謝',
    'ください',
    'してください',
    'お願いします',
  ],
  ...['por favor', 'gracias', 'bitte', 'danke', 'merci', "s['’]il (?:te|vous) pla[iî]t"],
);

export const STOP = anyOf(
  ...[
    'stop(?: (?:it|that|this|now|everything|working|generating|the (?:run|task|work)|right there))?',
    'halt',
    'abort(?: (?:it|the (?:run|task)))?',
  ],
  ...['cancel(?: (?:it|that|this|the (?:run|task)))?', "that['’]s enough"],
  ...[
    '停',
    '停止',
    '停下来?',
    '停下來',
    '停一下',
    '停止(?:生成|执行|執行|任务|任務|运行|運行|工作)',
    '住手',
    '终止',
    '終止',
    '中止',
    '取消(?:任务|任務)?',
  ],
  ...['(?:不要|别|別)(?:再)?(?:生成|做|继续做|写|寫|执行|執行|运行|運行)了'],
  ...[
    '止めて',
    'やめて',
    '停止して',
    'ストップ',
    'para(?:r|te)?',
    'detente',
    'alto',
    'stopp?',
    'anhalten',
    'aufhören',
    'hör auf',
    'arrête',
    'arrêtez',
  ],
);

export const PAUSE = anyOf(
  ...[
    'pause(?: (?:it|that|this|here|the (?:run|task|work|plan)))?',
    '暂停',
    '暫停',
    '暂停一下',
    '暫停一下',
    '先暂停',
    '先暫停',
  ],
  ...[
    '(?:暂停|暫停)(?:任务|任務|执行|執行|工作)',
    '一時停止',
    '一時停止して',
    'pausa',
    'pausar',
    'pausiere',
    'pausieren',
    'mets en pause',
  ],
);

export const UNDO = anyOf(
  ...[
    "(?:(?:it|this|that|the step|this step|that step)(?: is|['’]s) |that['’]s )?not (?:yet )?(?:done|finished|complete|completed)(?: yet)?",
    'undo',
  ],
  ...[
    '(?:这一?步|這一?步|上一步|它|任务|任務)?(?:还没有?|還沒有?|并没有?|並沒有?|没有?|沒有?|尚未|未)(?:完成|做完|结束|結束)',
    '撤销',
    '撤銷',
    '撤消',
  ],
  ...['まだ(?:終わ|完了し)って?(?:い)?(?:ない|ません)', 'まだ完了していません', '未完了'],
  ...['(?:aún|todavía) no(?: está)?(?: (?:hecho|terminado|listo))?', 'no está (?:hecho|terminado|listo)'],
  ...['(?:noch )?nicht (?:fertig|erledigt)', '(?:pas encore|pas) (?:fini|terminé|fait)'],
);

export const CONTINUE = anyOf(
  ...['continue', 'go on', 'go ahead', 'carry on', 'keep going', 'keep on', 'proceed', 'resume', 'move on'],
  ...['(?:continue|resume)(?: with)? (?:it|the (?:task|plan|work|run|job)|working|where you (?:left off|stopped))'],
  ...[
    '(?:继续|繼續)(?:执行|執行|任务|任務|执行任务|執行任務|处理|處理|进行|進行|做|干|工作|运行|運行|下去|往下|往下做|前进)?',
    '接着做?',
    '接著做?',
    '接着干',
    '往下做',
  ],
  ...['(?:恢复|恢復)(?:执行|執行|任务|任務|运行|運行|工作)?'],
  ...['続けて', '続行', '続行して', '再開', '再開して', '続き', '続きを', '継続', '継続して'],
  ...[
    'continúa',
    'continua',
    'continuar',
    'continúe',
    'sigue',
    'seguir',
    'siga',
    'sigue adelante',
    'adelante',
    'reanuda',
    'reanudar',
  ],
  ...['weiter', 'weitermachen', 'mach(?:e|t)? weiter', 'fortfahren', 'fahr(?:e)? fort', 'fortsetzen'],
  ...['continuez', 'continuer', 'reprends', 'reprenez', 'reprendre', 'poursuis', 'poursuivez', 'vas-y'],
);
/** After these the instruction may follow without punctuation: "继续下载剩下的文件", "continue with the summary". */
export const CONTINUE_INTO_CJK = anyOf('继续', '繼續', '接着', '接著');
/** Words that start the same way but mean something else: continuing education, continuity, successors. */
export const OTHER_WORD_CJK = anyOf(
  '教育',
  '性',
  '深造',
  '犯',
  '盘',
  '盤',
  '力',
  '者',
  '吗',
  '嗎',
  '么',
  '还是',
  '還是',
  '吧吗',
);
export const CONTINUE_INTO_LATIN = anyOf(
  'continue',
  'proceed',
  'carry on',
  'keep going',
  'go on',
  'resume',
  'go ahead',
);
export const LINK_LATIN = anyOf('with', 'from', 'at step', 'where', 'until', 'but', 'and', 'without', 'using');

/** A first word that adds to the request. */
export const APPEND = anyOf(
  ...[
    'also(?= |,)',
    'and also(?= |,)',
    'additionally',
    'in addition',
    'one more thing',
    'by the way',
    'btw',
    "(?:please )?(?:don['’]t|do not) forget",
    'oh and',
  ],
  ...[
    '(?:please )?remember to',
    'plus,',
    'p\\.?s\\.?[:,]',
    '对了[，,]',
    '對了[，,]',
    '(?:还有|還有|另外|此外)[，,：:\\s]',
    '(?:另外|此外)(?=[把请請再还還也])',
  ],
  ...[
    '顺便',
    '順便',
    '记得',
    '記得',
    '(?:别|別|不要)忘(?:了|记|記)',
    '补充(?:一下|一点|：)',
    '補充(?:一下|一點|：)',
    '再加',
    '加上',
    '同时也?[，,]',
  ],
  ...[
    'ちなみに',
    'それと、',
    'あと、',
    'además',
    'por cierto',
    'außerdem',
    'übrigens',
    'de plus,',
    'au fait',
    "n['’]oublie pas",
  ],
);

/** An opening that says what is wrong, or what to do instead. */
export const CORRECTION = anyOf(
  ...[
    'no[,.!;:—–-]+ ?(?!thanks|thank you|problem|worries|need|rush|hurry)(?=\\p{L})',
    'wrong(?![\\p{L}])',
    "that['’]s (?:wrong|not (?:right|what))",
    'not that',
    'incorrect',
  ],
  ...[
    "actually,? (?:use|make|change|do|don['’]t|let['’]s|i (?:want|meant|need)|it (?:should|must)|we)",
    'instead',
    'i meant',
    '(?:change|switch) (?:it|that|this) to',
    'rather,? use',
  ],
  ...[
    '(?:stop|wait|hold on)[,.!—–-]+ ?(?=\\p{L})',
    'use .{1,60} instead',
    '(?:no|nein|non)[,，]\\s*(?:usa|nimm|utilise)',
    'falsch',
    'incorrecto',
    'faux(?![\\p{L}])',
  ],
  ...[
    '不对',
    '不對',
    '(?:你)?(?:错|錯|搞错|搞錯|弄错|弄錯)了?[，,。！!]',
    '错了',
    '錯了',
    '不是(?:这|這|那|的|我)',
    '改(?:成|为|為|用)',
    '换(?:成|用|个)',
    '換(?:成|用|個)',
  ],
  ...[
    '(?:等一下|等等|等下|慢着|慢著)[，,。！!\\s]\\s*(?=\\p{L})',
    '应该(?:用|是|改)',
    '應該(?:用|是|改)',
    '(?:不要|别|別)用',
    '違う',
    '違います',
  ],
);
