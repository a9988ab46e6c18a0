import type { LanguageWords } from './word-classes.ts';

/** English words that people of any language write to a program. */
const LOANS = { stop: 'stop, stopp, cancel, abort', go: 'continue, resume', yes: 'ok, okay, 👍, ✅, 👌', no: '👎, ❌' };

export const SPANISH: LanguageWords = {
  stop: `${LOANS.stop}, para, parate, párate ya, pare, paren, parar, pares, detente, detener, deten, detengase, deténgase, detenlo, alto, basta, cancela, cancelar, cancelalo, cancelo, aborta, abortar, ya basta, olvidalo, olvídate, dejalo, déjalo ya, suficiente, es suficiente, para el carro, interrumpe, termina ya, corta`,
  pause:
    'pausa, pausar, pausalo, haz una pausa, toma un descanso, descansa, suspende, ponlo en pausa, pon en pausa, pausemos, hagamos una pausa',
  wait: 'espera, esperate, espere, espera un momento, un momento, un momentito, un segundo, un minuto, aguarda, aguanta, espera un poco, dame un segundo, dame un momento, dame un minuto, quieto, alto ahi, espera ahi, un segundito, momento',
  go: `${LOANS.go}, continua, continuar, continues, continúe, continuemos, sigue, siga, sigues, seguir, seguimos, sigamos, sigue adelante, seguir adelante, sigue asi, adelante, reanuda, reanudar, reanúdalo, prosigue, proseguir, vuelve a intentarlo, reintenta, reintentar, intentalo de nuevo, prueba otra vez, intenta otra vez, avanza, siguiente paso, retoma, retomalo, sigue trabajando, sigue con ello, termínalo, acaba lo que queda`,
  weakGo: 'dale, vamos, venga, mas, ya, listo, hazlo, siguiente, arreglado, go',
  back: 'vuelve, volver, atras, regresa, el plan anterior, el plan viejo, vuelve al plan, vuelve atras',
  newTask: 'nueva, nueva tarea, una tarea nueva, una nueva tarea, otra tarea, una nueva, algo nuevo, tarea nueva',
  undo: 'deshaz, deshacer, deshazlo, revierte, revertir, reabre, reabrir, vuelve a abrir, anula',
  it: 'todo, eso, esto, lo, la tarea, el trabajo, el plan, el proceso, la ejecucion, con eso, con esto, con ello, con el plan, con la tarea, con el trabajo, donde lo dejaste, desde donde lo dejaste, por donde ibas, donde te quedaste, desde donde te quedaste, trabajando, nada, nada mas',
  now: 'ya, ahora, ahora mismo, de inmediato, inmediatamente, aqui, ahi, por ahora, un poco, un rato, por hoy, hoy, enseguida, de una vez, de nuevo, otra vez, entonces, un momento, un segundo, un minuto, primero, todavia, aun, hasta el final, alli, mismo',
  filler:
    'por favor, porfa, xfa, porfavor, gracias, muchas gracias, hola, oye, bueno, pues, eh, ay, perdon, perdona, disculpa, lo siento, agente, bot, asistente, amigo, bien, muy bien, genial, perfecto, estupendo, excelente, buen trabajo, ah, uf, oh, si puedes, anda, tio, que, y, buenos dias, buenas, urgente, te lo ruego, te pido que, he dicho que, de momento, tranquilo, mejor, hombre, ven',
  yes: `${LOANS.yes}, si, vale, claro, de acuerdo, esta bien, por supuesto, aprobado, autorizado, perfecto`,
  no: `${LOANS.no}, nop, que no`,
  request:
    'puedes, podrias, puede, podria, ya puedes, puedes ya, quiero que, quisiera que, necesito que, vamos a, hay que, debes, tienes que, deberias, te permito, me gustaria que, a, podemos, ya podemos, es hora de, deja de trabajar y, tienes permiso para, puedes por favor, haz el favor de',
  question:
    'que, como, cuando, donde, cual, quien, por que, para que, cuanto, cuantos, cuantas, puedo, debo, deberia, es, esta, hay, se puede, podemos, qué pasa',
  if: 'si, cuando, despues, antes, solo si, despues de, antes de, en cuanto, a menos que, mañana, hasta que te diga',
  until: 'hasta, hasta que',
  because:
    'porque, es, esta, estas, eso es, esa es, este es, ese es, me, te, he, tengo, ya no, yo, hay, algo, te equivocas, te has, la carpeta, el archivo, estoy, mi, carpeta, archivo, equivocada',
  and: 'pero, y, luego, entonces, aunque, sino, y luego, y despues',
  with: 'con, desde, sin, en, por, usando, excepto, solo, a partir',
  unit: 'rondas, ronda, vueltas, vuelta, iteraciones, iteracion, veces, intentos, turnos, llamadas, ciclos',
  minutes: 'minutos',
  hours: 'horas',
  tokens: 'tokens',
  more: 'mas, otras, otros, adicionales, extra, otra',
  grant:
    'te doy, tienes, puedes usar, puedes hacer, da, añade, agrega, sube a, subelo a, sube el limite a, aumenta el limite a, aumentalo a, limite, usa, haz, permito, te quedan, te permito',
  limit: 'maximo, como maximo, hasta, como mucho, un maximo de, limite, limite de, no mas de, max, tope, tope de',
  do: 'haz, termina, completa, ejecuta, acaba, hagas, haz todo, trabajes, hacer',
  rest: 'el resto, lo que queda, lo que falta, los pasos restantes, lo demas, el resto del plan, los pasos que faltan, los pasos que quedan, con el resto, con lo que queda, con lo que falta',
  order: 'usa, cambia, pon, escribe, añade, agrega, borra, quita, envia, lee, crea, utiliza, sustituye',
  also: 'tambien, ademas, por cierto, no olvides, no te olvides, recuerda, incluye tambien, otra cosa',
  rather: 'en vez, en lugar, mejor usa, quise decir, queria decir, me referia, incorrecto',
  dont: 'no, no quiero que, nunca, deja de trabajar, no hace falta que, ya no, todavia no, aun no, no hace falta, no es necesario, no debes, sin',
  isnt: 'no esta, no estan, no ha, no esta todavia, todavia no esta, aun no esta, no esta aun, sigue sin, no se ha, no fue, no estaba, aun no, todavia no, no ha sido, sin',
  done: 'hecha, completo, completa, acabado, acabada, terminar',
  undone:
    'incompleto, sin terminar, inacabado, a medias, esta incompleto, esta sin terminar, esta a medias, incompleta',
  step: 'paso, este paso, ese paso, el paso, el ultimo paso, ultimo paso, el ultimo, la ultima, el paso anterior, paso anterior, la tarea, esa tarea, el tercer paso, el segundo paso, el primer paso, lo ultimo, pasos',
  mark: 'marca, marcalo, pon, como',
  report: 'dijo, dice, dijeron, palabra, boton, significa, llama, me digo, pone',
  other:
    'la parada, el paro, para que, para el, para la, para los, para las, sin parar, no pares, para mañana, deja de, parar de, para mi, para ti, alto nivel, pausa publicitaria, mas alto',
};

export const PORTUGUESE: LanguageWords = {
  stop: `${LOANS.stop}, para, pare, parem, parar, para ai, para tudo, para com isso, chega, ja chega, basta, cancela, cancele, cancelar, aborta, aborte, abortar, esquece, esqueça, esquece isso, deixa pra la, deixa para la, interrompa, interrompe, encerra, encerre, alto, desista, desiste, suficiente, e o suficiente, pode parar, larga isso`,
  pause:
    'pausa, pause, pausar, faz uma pausa, faça uma pausa, dá uma pausa, da uma pausa, suspende, suspenda, descansa, coloca em pausa, põe em pausa, dá um tempo, da um tempo, deixa em pausa',
  wait: 'espera, espere, espera ai, perai, pera, pera ai, péra, peraí, aguarda, aguarde, um momento, um momentinho, um segundo, um minuto, um instante, só um momento, so um minuto, so um segundo, segura, segura ai, calma, espera um pouco, espere um pouco, calma ai, so um instante, so um minutinho, um minutinho',
  go: `${LOANS.go}, continua, continuar, continuem, continuemos, continue assim, segue, siga, seguir, sigamos, segue em frente, siga em frente, seguir em frente, vai em frente, va em frente, prossiga, prossegue, prosseguir, retoma, retome, retomar, tenta de novo, tente de novo, tente novamente, tenta outra vez, tenta novamente, avança, avance, proximo passo, toca o barco, manda ver, pode ir, pode ir em frente, pode mandar, bora continuar, vamos continuar, continue trabalhando, reinicia, em frente, adiante`,
  weakGo: 'vai, bora, mais, proximo, pronto, vamos, manda, faz, faca isso, pode, arrumei, go',
  back: 'volta, voltar, volte, o plano anterior, o plano antigo, volta ao plano, volta para o plano',
  newTask: 'nova, nova tarefa, uma nova tarefa, uma tarefa nova, outra tarefa, uma nova, algo novo, tarefa nova',
  undo: 'desfaz, desfaça, desfazer, reverte, reverta, reabre, reabra, reabrir, desfaca, desmarca, desmarque, reverter',
  it: 'tudo, isso, isto, aquilo, a tarefa, o trabalho, o plano, o processo, a execucao, com isso, com o plano, com a tarefa, com o trabalho, de onde parou, onde parou, de onde voce parou, onde voce parou, trabalhando, nada, mais nada',
  now: 'ja, agora, agora mesmo, imediatamente, aqui, ai, por agora, por enquanto, um pouco, por hoje, hoje, de uma vez, de novo, novamente, entao, primeiro, ainda, um momento, um minuto, la, logo, ate o fim, um tempo, um instante',
  filler:
    'por favor, pfv, pf, pfvr, faz favor, obrigado, obrigada, valeu, vlw, oi, ola, ei, bom, bem, ah, eh, desculpa, desculpe, agente, bot, assistente, amigo, cara, mano, otimo, perfeito, excelente, muito bem, beleza, blz, legal, bom trabalho, muito obrigado, muito obrigada, bom dia, boa tarde, boa noite, opa, e, urgente, mas, gente, voce, so, nossa, eita, show, tranquilo, la, ta, massa, aí sim',
  yes: `${LOANS.yes}, sim, claro, certo, esta bem, ta bom, tudo bem, pode, aprovado, autorizado, com certeza, isso, ta, beleza, combinado, ja pode`,
  no: `${LOANS.no}, nada disso`,
  request:
    'pode, poderia, voce pode, você pode, voce poderia, quero que, quero que voce, gostaria que, preciso que, preciso que voce, vamos, vamos la, tem que, deve, ja pode, ja podes, podes, podemos, poderias, e hora de, hora de, favor, da para, da pra, favor de',
  question:
    'o que, que, como, quando, onde, qual, quem, por que, porque, quanto, quantos, quantas, posso, devo, deveria, e possivel, existe, ha, sera, quais, pra que, para que',
  if: 'se, quando, depois, antes, so se, depois de, antes de, assim que, a menos que, amanha, depois que',
  until: 'ate, ate que, ate eu',
  because:
    'porque, e, esta, isso e, essa e, esse e, eu, tem, algo, voce esta, voce ta, voce, ja nao, preciso, vou, deixa eu, estou, to, e a, deu, errado, pasta, arquivo, me',
  and: 'mas, e, depois, entao, porem, e depois, so que, e entao',
  with: 'com, desde, sem, em, a partir, usando, exceto, so, do, da, de onde, no, na, pelo',
  unit: 'rodadas, rodada, iteracoes, iteracao, vezes, tentativas, turnos, chamadas, ciclos, voltas',
  minutes: 'minutos',
  hours: 'horas',
  tokens: 'tokens',
  more: 'mais, outras, outros, adicionais, extra, outra',
  grant:
    'te dou, dou, dou lhe, dou-lhe, voce tem, tem, pode usar, da, de, usa, use, adiciona, aumenta para, aumente para, aumenta o limite para, aumente o limite para, suba para, sobe para, limite, faz, faça, roda, rode, pode fazer, libero, voce ganha, pode rodar',
  limit: 'maximo, no maximo, ate, um maximo de, limite, limite de, nao mais que, max, teto de',
  do: 'faz, faça, termina, termine, completa, complete, executa, execute, acaba, acabe, fazer, mexe, toque, conclua, conclui',
  rest: 'o resto, o que falta, o que resta, os passos restantes, os passos que faltam, o restante, o resto do plano, com o resto, com o que falta, as etapas restantes, as etapas que faltam',
  order:
    'usa, use, muda, mude, coloca, coloque, escreve, escreva, adiciona, adicione, apaga, apague, tira, envia, cria, le, troca, troque, utiliza',
  also: 'tambem, alem disso, a proposito, nao esqueça, nao se esqueça, nao esquece, lembra, lembre, inclui tambem, outra coisa, mais uma coisa',
  rather: 'em vez, ao inves, no lugar, quis dizer, queria dizer, me refiro, incorreto',
  dont: 'nao, nunca, nao precisa, nao precisa mais, ja nao, ainda nao, nao quero que, nao e preciso, nao precisa de, nao deve, sem',
  isnt: 'nao esta, nao ta, ainda nao esta, ainda nao ta, nao foi, nao estava, ainda nao, nao esta ainda, ainda nao foi, nao tava, nao ficou, ainda nao ficou',
  done: 'pronto, pronta, terminado, terminada, completo, completa, acabado, terminou, acabou',
  undone:
    'incompleto, incompleta, inacabado, inacabada, esta incompleto, esta incompleta, ficou pela metade, pela metade, sem terminar, nao terminou, ainda nao terminou, nao acabou, ainda nao acabou',
  step: 'passo, este passo, esse passo, o passo, o ultimo passo, ultimo passo, a ultima etapa, ultima etapa, a etapa, essa etapa, esta etapa, etapa, o ultimo, a ultima, o passo anterior, a tarefa, essa tarefa, a etapa anterior, aquele passo, aquela etapa, passos, etapas',
  mark: 'marca, marque, coloca, como',
  report: 'disse, diz, disseram, palavra, botao, significa, chama, escrito, nome',
  other:
    'para o, para a, para os, para as, para amanha, para que, para de, pare de, parar de, sem parar, espera se, espera-se, a parada, a pausa, para mim, para voce, nao para, pra, para eu, deixa para amanha, pausa para',
};

export const FRENCH: LanguageWords = {
  stop: `${LOANS.stop}, arrete, arretes, arretez, arreter, arrete toi, arrete-toi, arretez-vous, arretons, halte, annule, annulez, annuler, abandonne, abandonnez, abandonner, laisse tomber, laissez tomber, laisse beton, ca suffit, suffit, assez, cesse, cessez, interromps, interrompez, oublie ça, oublie, oublie tout, oubliez, tant pis, on arrete, stoppe, stoppez, stopper, t arretes, t arreter, termine la, arrete les frais, c est bon arrete, stop la, arrete tout, ca ira, coupe tout`,
  pause:
    'pause, fais une pause, faites une pause, mets en pause, mettez en pause, mets-toi en pause, mets toi en pause, mettre en pause, suspends, suspendez, repose toi, fais un break, prends une pause, mets ca en pause, mets le en pause, mets tout en pause, une pause, on fait une pause, mets sur pause, faire une pause',
  wait: 'attends, attend, attendez, attendre, minute, une minute, une seconde, un instant, un moment, deux secondes, deux minutes, une petite seconde, patience, patiente, patientez, pas si vite, doucement, hé attends, attends voir, attends voir, deux sec, une sec, 2 secondes, 2 minutes, minute papillon',
  go: `${LOANS.go}, continuez, continuer, continues, continuons, on continue, reprends, reprenez, reprendre, reprend, on reprend, poursuis, poursuivez, poursuivre, poursuit, vas-y, vas y, allez-y, allez y, allons-y, on y va, avance, avancez, passe a la suite, passez a la suite, la suite, etape suivante, prochaine etape, reessaie, reessaye, reessayez, essaie encore, essaye encore, recommence, relance, relancez, enchaine, go on, fonce, termine le travail, finis le travail, c est reparti, tu peux y aller, redemarre, remets-toi au travail`,
  weakGo: 'va, allez, encore, go, plus, suivant, repare, c est fait, fais le, fais-le, fait, suite, c est repare',
  back: 'retour, reviens, retourne, l ancien plan, le plan precedent, reviens au plan, retour au plan',
  newTask: 'nouveau, nouvelle, nouvelle tache, une nouvelle tache, une autre tache, une nouvelle, autre chose',
  undo: 'annule, defais, defaire, defaites, rouvre, rouvrez, rouvrir, reviens sur, retablis, reviens en arriere, decoche, remets a faire',
  it: 'tout, ce, ça, ca, cela, le, la, la tache, le travail, le plan, l execution, le processus, ce travail, cette tache, avec ça, avec le plan, avec la tache, la ou tu en etais, ou tu en etais, la ou tu t es arrete, ou tu t es arrete, d ou tu en etais, de la ou tu en etais, la ou vous en etiez, rien, plus rien, rien d autre, moi ca, moi ça, ton travail, comme prevu, y',
  now: 'maintenant, tout de suite, immediatement, ici, la, pour l instant, pour le moment, un peu, un instant, un moment, aujourd hui, pour aujourd hui, alors, de nouveau, d abord, deja, une seconde, une minute, deux minutes, deux secondes, vite, aussitot, net, donc, quand meme, enfin, jusqu au bout, jusqu a la fin, direct',
  filler:
    's il te plait, s il vous plait, sil te plait, sil vous plait, stp, svp, merci, merci bien, merci beaucoup, bonjour, bonsoir, salut, coucou, he, hey, eh, euh, ah, oh, bon, ben, bah, desole, desolee, pardon, agent, bot, assistant, parfait, super, genial, tres bien, excellent, bravo, bien, beau travail, bon travail, nickel, impeccable, toi, vous, je t en prie, oups, zut, merde, mon ami, je dis, j ai dit, au secours, urgent, si possible, mais, juste, c est bien, ça roule, mec, hop, finalement, pitie',
  yes: `${LOANS.yes}, oui, ouais, d accord, dac, bien sur, ok pour moi, c est bon, ça marche, ca marche, entendu, approuve, autorise, ca va, certainement, volontiers, okay, tu as mon accord, vous avez mon accord, tu as mon feu vert, feu vert`,
  no: `${LOANS.no}, non, nan`,
  request:
    'tu peux, vous pouvez, peux-tu, peux tu, pouvez-vous, pouvez vous, pourrais-tu, pourrais tu, pourriez-vous, pourriez vous, tu pourrais, je veux que tu, je voudrais que tu, j aimerais que tu, il faut que tu, il faut, tu dois, tu devrais, on peut, on va, on doit, tu peux maintenant, maintenant tu peux, je te demande de, je te demande d, merci de, merci d, veuillez, prière de, c est le moment de, je t autorise a, je te laisse, il est temps de, il est temps d, tu as le droit de, y a moyen de, libre a toi de',
  question:
    'que, quoi, comment, quand, ou, pourquoi, quel, quelle, quels, quelles, qui, combien, dois-je, dois je, faut-il, faut il, est-ce que, est ce que, est-ce, qu est-ce, qu est ce, puis-je, y a-t-il, a quoi, devrais-je, peut-on, es-tu, as-tu, que se',
  if: 'si, quand, apres, avant, une fois, des que, lorsque, seulement si, sauf si, demain, apres que, quand je te le dirai',
  until: 'jusqu a, jusqu au, jusqu a ce que, jusque, jusqu a demain, le temps que',
  because:
    'parce que, car, c est, tu, vous, je, j, j ai, il y a, y a, on, mauvais, mauvaise, tu es, tu as, le mauvais, la mauvaise, quelque chose, il, elle, plus besoin, laisse-moi, laisse moi, faut que je, pas le bon, pas la bonne, erreur',
  and: 'mais, et, puis, ensuite, et puis, et ensuite, par contre',
  with: 'avec, depuis, sans, a partir, en, sauf, uniquement, seulement, a l etape, de l etape, des, pour, jusqu',
  unit: 'tours, tour, iterations, iteration, fois, essais, tentatives, appels, cycles, boucles, manches, passes',
  minutes: 'minutes',
  hours: 'heures',
  tokens: 'tokens, jetons',
  more: 'encore, de plus, autres, supplementaires, en plus, plus, rab, additionnels, additionnelles',
  grant:
    'je te donne, je t accorde, je te laisse, je vous donne, je t en donne, tu as, tu as droit a, tu peux faire, tu peux utiliser, prends, fais, ajoute, monte a, passe a, monte la limite a, augmente la limite a, augmente a, limite a, la limite est de, donne toi, tu disposes de, allez',
  limit: 'maximum, max, au maximum, au plus, pas plus de, limite, limite a, limite de, un maximum de, jusqu a',
  do: 'fais, finis, finissez, termine, terminez, complete, execute, acheve, touche, faire, finir, terminer, faites',
  rest: 'le reste, ce qui reste, ce qu il reste, les etapes restantes, la suite du plan, le reste du plan, les dernieres etapes, les etapes qui restent, la fin, avec le reste, tout ce qui reste',
  order: 'utilise, change, mets, ecris, ajoute, efface, supprime, remplace, envoie, lis, cree, prends, montre',
  also: 'aussi, egalement, en plus, de plus, au fait, n oublie pas, oublie pas, pense a, rappelle toi, ah et, et aussi, autre chose, encore une chose',
  rather: 'plutot, au lieu, a la place, je voulais dire, incorrect, faux',
  dont: 'ne, n, pas la peine de, plus la peine de, inutile de, inutile d, ne pas, pas besoin de, surtout pas, il ne faut pas, je ne veux pas que tu, pas la peine d, arrete de bosser',
  isnt: 'n est pas, n est pas encore, est pas, est pas encore, pas encore, n etait pas, pas, n a pas ete, n est toujours pas, toujours pas, ne sont pas, est toujours pas, n est vraiment pas, etait pas, a pas ete',
  done: 'complet, complete, pret, prete, finis, finies, terminees, boucle, bouclee, au point',
  undone: 'incomplet, incomplete, inacheve, inachevee, est incomplet, est incomplete, reste a faire',
  step: 'etape, l etape, cette etape, la derniere etape, derniere etape, l etape precedente, la derniere, le dernier, l etape d avant, la tache, cette tache, ce point, la troisieme etape, la deuxieme etape, la premiere etape, le dernier point, etapes, ce truc',
  mark: 'marque, mets, coche, comme, note',
  report: 'dit, dis, disent, mot, bouton, signifie, appelle, si je dis, nomme, intitule, ecrit',
  other:
    'l arret, arret de, la formation continue, formation continue, sans arret, arrete de, arrete d, arretez de, arretez d, arreter de, arreter d, en attendant, attends-toi, attends toi, n arrete pas, a la suite, en continu, la pause dejeuner, attends-tu, attends tu, une suite, fonction continue',
};

export const GERMAN: LanguageWords = {
  stop: `${LOANS.stop}, stoppen, stoppe, stop mal, halt, halte an, anhalten, halt an, aufhoren, hor auf, hore auf, hort auf, hor bitte auf, hor sofort auf, hor jetzt auf, hor damit auf, hor mal auf, abbrechen, abbruch, brich ab, brich das ab, brich bitte ab, brechen sie ab, schluss, schluss jetzt, schluss damit, genug, das reicht, reicht, es reicht, das genugt, vergiss es, vergiss das, vergiss den auftrag, lass es, lass das, lass gut sein, lass es gut sein, lass gut, lass sein, beenden, beende, beende es, beende das, stornieren, einstellen, hor endlich auf, cut, aus, sofort aufhoren, ende, feierabend, mach schluss, lass mal, finger weg`,
  pause:
    'pause, pausieren, pausiere, pausier, mach pause, mach mal pause, mach eine pause, mach mal eine pause, mach kurz pause, mach bitte pause, mach bitte eine pause, leg eine pause ein, unterbrechen, unterbrich, unterbrich mal, pausiere das, ruh dich aus, pausiert, kurze pause, eine pause, machen wir pause, machen wir eine pause',
  wait: 'warte, wart, warten, wartet, warte mal, wart mal, moment, moment mal, einen moment, einen augenblick, augenblick, sekunde, eine sekunde, kleinen moment, momentchen, stopp mal, langsam, immer langsam, halt mal, nicht so schnell, eine minute, minute, sek, kurz warten, ne sekunde, mal langsam, gemach, abwarten',
  go: `${LOANS.go}, weiter, weitermachen, mach weiter, mache weiter, macht weiter, machen sie weiter, mach bitte weiter, mach ruhig weiter, mach einfach weiter, mach mal weiter, mach nur weiter, mach doch weiter, mach jetzt weiter, machen wir weiter, weiter gehts, weiter geht es, weiter so, fortfahren, fahr fort, fahre fort, fahren sie fort, fortsetzen, setz fort, setze fort, setz es fort, setz die arbeit fort, weiterarbeiten, arbeite weiter, arbeite bitte weiter, nachster schritt, nachsten schritt, versuch es nochmal, versuche es nochmal, versuchs nochmal, probier es nochmal, probiers nochmal, nochmal versuchen, noch mal versuchen, nochmal, wiederholen, nur zu, los gehts, gehts weiter, es geht weiter, wiederaufnehmen, nimm die arbeit wieder auf, weiterlaufen, lauf weiter, weitermachst, versuch es noch mal, probier nochmal, gib gas, mach fertig, mach es fertig, mach das fertig, leg los, zieh durch`,
  weakGo:
    'los, mehr, go, nachster, fertig, behoben, mach, mach es, machs, mach das, tu es, und, ab, auf gehts, repariert, erledigt',
  back: 'zuruck, geh zuruck, der alte plan, den alten plan, der vorige plan, zuruck zum plan, zum alten plan, zuruck zum alten plan',
  newTask:
    'neu, neue aufgabe, eine neue aufgabe, neuer auftrag, ein neuer auftrag, eine neue, eine andere aufgabe, etwas neues, was neues',
  undo: 'ruckgangig, ruckgangig machen, mach ruckgangig, mach das ruckgangig, mach es ruckgangig, wieder aufmachen, wieder offnen, offne, widerrufen, zurucknehmen, nimm das zuruck, nimm zuruck, wieder auf, mach wieder auf, wieder offen, zurucksetzen, setz zuruck',
  it: 'es, das, dies, alles, alle, die aufgabe, den lauf, der lauf, die arbeit, den plan, das ganze, den vorgang, den auftrag, damit, mit der aufgabe, mit der arbeit, mit dem plan, wo du aufgehort hast, da wo du aufgehort hast, wo du warst, dort wo du aufgehort hast, ab da wo du aufgehort hast, nichts, nichts mehr, die ausfuhrung, wie geplant, das da, den rest',
  now: 'jetzt, sofort, gleich, hier, da, erst mal, erstmal, fur heute, heute, mal, kurz, bitte mal, einen moment, ein bisschen, bisschen, wieder, dann, zuerst, unverzuglich, auf der stelle, eben, bis auf weiteres, nun, schnell, vorerst, erst, endlich, einfach, ruhig, doch, eine minute, eine sekunde, eine weile, dort, bis zum ende, mal kurz, schon, nur, sogleich, eine kleine',
  filler:
    'bitte, danke, dankeschon, danke dir, vielen dank, hallo, hi, hey, moin, servus, na, ach, oh, ah, ahm, äh, hm, also, so, gut, super, prima, perfekt, toll, klasse, sehr gut, entschuldigung, sorry, tut mir leid, agent, bot, assistent, leute, du, sie, gute arbeit, schon gut, gern, gerne, guten morgen, guten tag, guten abend, man, mensch, verdammt, naja, tja, ich sagte, ich sag, wenn moglich, aber, mein freund, dringend, hilfe, um gottes willen, bloss, lieber, mir, schones ding, mann, nee, wir, sieht gut aus',
  yes: `${LOANS.yes}, ja, jawohl, jo, jap, klar, sicher, einverstanden, in ordnung, passt, genehmigt, freigegeben, alles klar, natürlich, gerne, geht klar, erlaubt, von mir aus, das passt, du hast mein ok, ist ok, ist okay, stimmt`,
  no: `${LOANS.no}, nein, ne, nee, nö`,
  request:
    'kannst du, kannst, konntest du, konnten sie, konnen sie, du kannst, sie konnen, du darfst, darfst, du sollst, du musst, ich will dass du, ich mochte dass du, wir konnen, lass uns, lasst uns, wurdest du, wurden sie, jetzt kannst du, du kannst jetzt, kannst jetzt, bitte, es ist zeit, konntest, du solltest, kann, hiermit darfst du, es darf, es kann, kanns, dann kannst du, ich bitte dich, konnt ihr, ihr konnt',
  question:
    'was, wie, wann, wo, warum, wieso, weshalb, welche, welcher, welches, wer, wen, wem, wieviel, wie viele, ob, soll ich, sollen wir, darf ich, kann ich, muss ich, ist, sind, gibt es, wird, wozu, woher, wohin, geht das, hast du, bist du, wieviele, konnen wir',
  if: 'wenn, falls, sobald, nachdem, bevor, erst wenn, nur wenn, erst nach, nach, vor, ehe, sofern, morgen, wahrend',
  until: 'bis, bis dann, bis ich',
  because:
    'weil, denn, da ist, das ist, du bist, du hast, ich, ich bin, ich muss, ich habe, ich hab, es ist, das war, falscher, falsche, falsches, der falsche, die falsche, etwas, irgendwas, du loschst, es gibt, da stimmt, lass mich, ist der falsche, ist die falsche, nicht der, das sind, wir, brauche, brauch',
  and: 'aber, und, dann, und dann, jedoch, danach, und danach, allerdings',
  with: 'mit, ab, von, ohne, bei, in, ausser, nur, ab schritt, bei schritt, mit schritt, fur, zum, zur, beim, am',
  unit: 'runden, runde, iterationen, iteration, mal, versuche, durchgange, durchlaufe, aufrufe, zyklen, schleifen, anlaufe',
  minutes: 'minuten',
  hours: 'stunden',
  tokens: 'tokens, token',
  more: 'noch, mehr, weitere, zusatzliche, nochmal, nochmals, noch mal, extra, noch weitere',
  grant:
    'ich gebe dir, ich geb dir, gib ihm, gib dir, du hast, du bekommst, du kriegst, du darfst, nimm, mach, erhohe auf, erhoh auf, erhohe das limit auf, erhoh das limit auf, setz das limit auf, setze das limit auf, limit auf, das limit ist jetzt, bekommst, kriegst, hier hast du, hier sind, kannst, ich erlaube, erlaube, auf, darfst',
  limit: 'maximal, maximum, hochstens, max, bis zu, nicht mehr als, limit, limit von, obergrenze',
  do: 'mach, mache, erledige, beende, führe aus, bearbeite, machen, erledigen, tu, arbeite, mach noch, anfassen, tun, schliess ab, zieh',
  rest: 'den rest, der rest, was noch fehlt, die restlichen schritte, die ubrigen schritte, das ubrige, was ubrig ist, den rest fertig, die restlichen, was noch offen ist, mit dem rest, den rest noch, mit den restlichen schritten',
  order:
    'nimm, verwende, benutze, nutze, andere, schreib, schreibe, fuge, losche, ersetze, schick, sende, lies, erstelle, setze, zeig, zeige',
  also: 'auch, ausserdem, zudem, zusatzlich, ubrigens, vergiss nicht, denk daran, denk dran, noch etwas, noch was, des weiteren',
  rather: 'stattdessen, statt, ich meinte, falsch, anstatt, doch lieber',
  dont: 'nicht, nicht mehr, noch nicht, bitte nicht, nie, niemals, keinesfalls, auf keinen fall, du musst nicht, du brauchst nicht, du sollst nicht, nicht mehr weiter, kein, keine',
  isnt: 'nicht, ist nicht, ist noch nicht, noch nicht, war nicht, war noch nicht, ist gar nicht, ist nicht wirklich, sind nicht, wurde nicht, ist noch lange nicht, ist noch gar nicht, noch lange nicht',
  done: 'beendet, komplett, vollstandig, getan, gemacht, durch, zu ende',
  undone:
    'unfertig, unvollstandig, ist unvollstandig, fehlt noch was, ist unfertig, ist noch offen, noch offen, ist offen',
  step: 'schritt, der schritt, den schritt, dieser schritt, diesen schritt, der letzte schritt, den letzten schritt, letzter schritt, letzten schritt, schritte, die aufgabe, der vorige schritt, den vorigen schritt, das letzte, den letzten, dieser punkt, der punkt, diese aufgabe, schritt eins, schritt zwei, schritt drei, schritt vier, schritt funf',
  mark: 'markiere, setze, als, auf, mach',
  report: 'sagt, sagte, sagen, heisst, wort, knopf, taste, bedeutet, schreibe, schreiben, nennt, steht',
  other:
    'weiter vorne, weiter hinten, weiter unten, weiter oben, leite, ohne pause, ohne halt, hor nicht auf, halt das, halt die, halt den, und so weiter, halte die, nicht fertige, aus dem, aus der, die pause, aufhoren zu, hor auf zu, ende der, ende des, am ende, ende gut, mehr als, halten',
};

export const RUSSIAN: LanguageWords = {
  stop: `${LOANS.stop}, стоп, стой, стойте, остановись, остановитесь, остановить, останови, остановите, остановка, прекрати, прекратите, прекратить, хватит, достаточно, довольно, отмена, отмени, отмените, отменить, отбой, забудь, забудьте, забей, прерви, прервите, прервать, отставить, заканчивай, завершай, кончай, брось, бросай, не надо, не нужно, тормози, сворачивайся, не надо больше, всё хватит, баста, останавливайся`,
  pause:
    'пауза, паузу, сделай паузу, сделайте паузу, поставь на паузу, на паузу, приостанови, приостановите, приостановись, приостановить, передохни, сделай перерыв, отдохни, возьми паузу, перерыв, притормози, поставь всё на паузу',
  wait: 'подожди, подождите, погоди, погодите, постой, постойте, ждать, жди, минутку, минуточку, секунду, секундочку, обожди, подожди минутку, подожди секунду, погодь, момент, одну минуту, одну секунду, не спеши, не торопись, минуту, стоять, тихо, тпру, сек',
  go: `${LOANS.go}, продолжай, продолжайте, продолжить, продолжать, продолжаем, продолжим, продолжи, продолжите, дальше, давай дальше, поехали дальше, идем дальше, иди дальше, возобнови, возобновите, возобновить, возобновляй, попробуй снова, попробуй еще раз, попробуй ещё, повтори, повтори попытку, еще раз, следующий шаг, к следующему шагу, переходи дальше, переходи к следующему шагу, двигайся дальше, действуй, действуйте, работай дальше, вперед, доделай, доделывай, доделай до конца, закончи начатое, можно дальше, снова в бой, заверши начатое, го дальше, продолжение работы, работай, едем дальше`,
  weakGo: 'давай, поехали, еще, го, погнали, готово, следующий, начинай, делай, исправил, починил, больше',
  back: 'назад, вернись, вернуться, старый план, прежний план, прошлый план, вернись к плану, обратно',
  newTask: 'новая, новая задача, это новая задача, другая задача, новое задание, новое, другое задание',
  undo: 'отмени последний шаг, верни, верните, откати, откатить, откатите, переоткрой, открой снова, отмени последнее, сними отметку, верни назад, вернуть, отмени шаг, сними галочку, открой заново',
  it: 'это, все, всё, работу, задачу, задание, план, процесс, выполнение, с того места, с места остановки, там где остановился, с того же места, где остановился, с того места где остановился, работать, ничего, ничего больше, его, эту задачу, это всё, все это, выполнять, делать',
  now: 'сейчас, немедленно, сразу, тут, здесь, пока, пока что, на сегодня, сегодня, теперь, немного, чуть чуть, чуток, на минуту, на минутку, снова, опять, тогда, быстро, срочно, сначала, уже, больше, вот, прямо сейчас, скорее, до конца, минуту, секунду, минутку, на время, там, спокойно, смело, как есть, ненадолго, дальше',
  filler:
    'пожалуйста, пжл, плиз, плз, пж, спасибо, спс, благодарю, привет, здравствуй, здравствуйте, эй, ну, ой, ах, э, так, ладно, извини, извините, прости, простите, бот, агент, ассистент, друг, хорошо, отлично, супер, молодец, прекрасно, замечательно, класс, круто, блин, а, и, ты, вы, я сказал, говорю, большое спасибо, спасибо большое, добрый день, доброе утро, о, слушай, слушайте, все хорошо, отличная работа, хорошая работа, же, просто, ка, господи, боже, черт, помогите, кошмар, братан, короче, окей',
  yes: `${LOANS.yes}, да, ага, угу, конечно, ок, окей, хорошо, согласен, согласна, можно, разрешаю, одобряю, верно, подтверждаю, ладно, договорились, пусть, так и быть, одобрено`,
  no: `${LOANS.no}, нет, неа`,
  request:
    'можно, можешь, можете, давай, давайте, нужно, надо, пора, ты можешь, вы можете, мог бы ты, не мог бы ты, прошу, хочу чтобы ты, теперь можно, можешь уже, тебе можно, разрешаю, прошу тебя, попрошу, теперь можешь, уже можно, следует, нам надо, не могли бы вы',
  question:
    'что, как, когда, где, почему, зачем, какой, какая, какие, какое, кто, сколько, ли, стоит ли, нужно ли, можно ли, куда, откуда, чей, разве, какую, какого',
  if: 'если, когда, после, перед, до того, как только, только если, только после, пока не, прежде, завтра, потом, позже',
  until: 'до, до завтра, пока я, до тех пор',
  because:
    'потому, так как, я, ты, это не, тут, он, она, мы, не та, не тот, не то, не туда, неправильно, неправильный, неверный, неверная, что то, у меня, мне, там, надо проверить, проверю, ошибка, ведь',
  and: 'но, и, а, потом, затем, только, однако, и потом, а потом, а затем',
  with: 'с, со, без, до, кроме, используя, начиная, от, в, на шаге, по, к',
  unit: 'раундов, раунда, раунд, итераций, итерации, итерация, шагов, шага, раз, раза, попыток, попытки, ходов, хода, вызовов, циклов, кругов, круга',
  minutes: 'минут, минуты',
  hours: 'часов, часа, час',
  tokens: 'токенов, токена',
  more: 'еще, больше, дополнительно, дополнительных, плюс',
  grant:
    'даю, даю тебе, дай, дай себе, дам, дам тебе, тебе, у тебя, можешь сделать, можешь, сделай, добавь, увеличь до, увеличь лимит до, подними до, подними лимит до, лимит теперь, используй, возьми, выделяю, разрешаю, пусть будет, поставь лимит, добавляю, накинь, лимит до',
  limit: 'максимум, не больше, не более, лимит, до, предел, макс',
  do: 'делай, сделай, закончи, заверши, выполни, доделай, трогай, делайте, доведи, выполняй, работай',
  rest: 'остальное, остаток, оставшееся, что осталось, оставшиеся шаги, остальные шаги, то что осталось, остальную часть, все остальное, оставшуюся часть, оставшуюся работу, все что осталось',
  order:
    'используй, возьми, измени, напиши, добавь, удали, замени, отправь, прочитай, создай, убери, поставь, покажи, запиши',
  also: 'также, тоже, еще и, кроме того, кстати, не забудь, не забудьте, помни, плюс к этому, вдобавок, и еще, добавь еще, а еще, и добавь',
  rather: 'вместо, лучше, я имел в виду, неверно, не то',
  dont: 'не, никогда, не надо, не нужно, пока не, больше не, рано, не смей, нельзя, не стоит, не вздумай, ни в коем случае не',
  isnt: 'не, еще не, пока не, так и не, все еще не, не был, не была, не было, не совсем, вовсе не, до сих пор не, ещё',
  done: 'закончен, закончена, закончено, сделан, сделана, доделан, доделано, закончил, доделал, завершил, доделана',
  undone:
    'не готово, еще не готово, не закончено, не доделано, недоделано, недоделан, незакончен, не завершено, еще не закончено, не сделано, незавершен, незавершено, не доделан',
  step: 'шаг, этот шаг, тот шаг, последний шаг, предыдущий шаг, прошлый шаг, этап, этот этап, последний этап, задача, пункт, эта задача, второй шаг, третий шаг, первый шаг, последнее, шаге, последний, предыдущий этап, четвертый шаг, этот пункт, последний пункт, этапе',
  mark: 'отметь, пометь, как, поставь, верни в',
  report: 'сказал, сказала, говорит, слово, кнопка, кнопку, значит, называется, написано, пишет',
  other:
    'стоп слова, стоп-слова, не останавливайся, без остановки, остановка автобуса, продолжение рассказа, не прекращай, не хватит, хватит ли, хватит на, отмена заказа, на паузе, стой на, в отмену, не отменяй, отмена брони, как дальше, минуту молчания',
};
