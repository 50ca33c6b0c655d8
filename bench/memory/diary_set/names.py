"""Names of people, places, things and notebooks, and the small sentences that fill a diary. All invented here."""

from __future__ import annotations


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace("\n", "|").split("|") if part.strip())


PEOPLE = _split("""沈亦航|林舒窈|顾行舟|苏念北|陆知遥|姜若宁|周牧野|秦晚棠|许砚秋|白映雪|程远帆|叶听澜|韩子墨
唐小满|宋怀瑾|杜雨桐|贺兰青|孟星河|袁守一|方如意|梁景行|温月华|冯半夏|钟离远|罗云舒|傅长庚|汪蓝溪|雷鸣谦|戴望春|石青禾|尹若谷|柯南枝""")

PLACES = _split("""梧桐里|望江桥|青石巷|北仓库|栖霞路|临湖湾|小满咖啡馆|松风书店|云门寺|鹿鸣坡|东篱菜场
白塔公园|南浦码头|听雨轩|石榴街|旧船厂|柳叶渡|向阳新村|清河镇|竹影茶室|西岭水库|银杏大道|合欢广场|大槐树站""")

DISHES = _split("""腌笃鲜|葱油拌面|番茄牛腩|三杯鸡|蟹粉豆腐|酸汤肥牛|荷叶排骨|菌菇砂锅|雪菜黄鱼|椒麻兔丁|桂花糯米藕
羊肉泡馍|清蒸鲈鱼|梅菜扣肉|豆豉蒸鱼|干煸豆角|冬瓜薏米汤|麻婆豆腐|糖醋里脊|油泼扯面""")

BOOKS = _split("""《河岸上的钟》|《雾中灯塔》|《第七封信》|《修表匠手记》|《盐与铁》|《一座桥的传记》|《南方植物小史》
《沉默的算盘》|《夜航船客》|《旧地图》|《邮差的四季》|《风从哪里来》|《纸上城池》|《山中来客》|《零点车站》|《苔藓笔记》""")

FILMS = _split("""《渡口》|《长夜微光》|《白昼列车》|《海的背面》|《八号房客》|《最后一班电车》|《雪线》|《盛夏来电》
《归途三日》|《橘色房间》|《北方邮局》|《无声合唱》""")

# Two sets of notebooks: private diaries, the shared one, two books of knowledge, and one that mixes in English.
PRIVATE = (("小鹿", "阿澈", "夏眠"), ("小克", "阿岚", "星野"))
KNOWLEDGE = (("小鹿的知识", "阿澈的知识"), ("小克的知识", "阿岚的知识"))
SHARED = "公共"
ENGLISH = ("Luna", "Nova")

WEATHER = _split("""早上起来窗外全是雾，远处的楼只剩一个影子。|阳光特别好，被子晒得蓬松。
断断续续下了一天小雨，地上一直没干。|风很大，阳台上的衣架被吹得叮当响。
天阴沉沉的，像是随时要下点什么。|气温忽然掉了七八度，翻出了厚外套。
傍晚的云烧得通红，路人都停下来拍照。|闷热得厉害，走几步就一身汗。
夜里起了凉意，关了半扇窗。|难得的蓝天，能看清西边的山。
空气里有桂花的味道，不知从哪条巷子飘来。|下午一阵急雨，来得快去得也快。
清早路面结了薄冰，走得小心翼翼。|屋里有点闷，开了窗才舒服。
月亮很圆，照得院子发白。|柳絮满天飞，出门戴了口罩。
午后打了几声闷雷，雨终究没下来。|雪化了一半，屋檐一直在滴水。
天黑得越来越早，五点多就要开灯。|清晨鸟叫得很热闹，比闹钟还准。""")

MOODS = _split("""心情还算平静，没什么特别想抱怨的。|整个人松了一口气，好久没有这样踏实。
说不上高兴也说不上难过，就是有点累。|夜里躺下的时候，忽然觉得日子过得真快。
想到明天还有一堆事，稍微有点发怵。|能把这些写下来，心里就清楚多了。
今天话说得有点多，嗓子发干。|一个人安安静静待了一会儿，很难得。
有些细节再不记就要忘了，所以趁早写。|回头看看，其实没有想象中那么糟。
被一句不经意的话逗笑了好几次。|有点走神，做什么都慢半拍。
晚饭吃得太饱，写字都懒洋洋的。|总觉得漏了什么，又想不起来。
情绪起伏了一阵，睡前总算稳住了。|今天的节奏正好，不赶也不拖。
答应过自己少熬夜，又没做到。|觉得应该对自己再宽容一些。
合上电脑那一刻，耳朵里忽然安静了。|这一天像被拉长了，却也没觉得无聊。""")

SMALL = _split("""楼下的猫又胖了一圈，冲我叫了两声。|顺路买了一袋橙子，甜得很。
把抽屉里的旧票据整理了一遍。|泡了一壶陈皮茶，慢慢喝完。
邻居家的孩子在练琴，断断续续的。|给绿萝换了水，又冒出两片新叶。
路口的红绿灯坏了，堵了好一阵。|收到一张明信片，字迹有点潦草。
晚上把鞋柜擦了一遍，找到一只失踪的袜子。|手机屏幕又多了一道划痕。
电梯里遇到一位老先生，聊了两句花草。|把闹钟往前调了十分钟。
午休时翻了几页旧杂志。|便利店换了新的店员，动作很利落。
袋子里的面包压扁了，味道倒没变。|在公交上睡过了一站，走回来的。
钥匙差点忘在门上。|把手机里的照片清掉了两百多张。
睡前听了一会儿电台，主持人的声音很低。|剪了指甲，擦了桌子，算是收尾。
隔壁装修的电钻声响了一上午。|补了几笔记账，发现零食花得太多。
给妈妈发了几张照片。|楼道的灯终于修好了。
翻出一支很久不用的钢笔，居然还能写。|把冰箱里过期的酱料都扔了。
快递放错了柜子，找了半天。|看了一会儿雨，什么也没想。""")

SMALL_ENGLISH = _split("""Made a pot of tea and let it go cold twice.
The neighbour's cat sat on the window sill all morning.
Inbox is down to twelve, which feels like a victory.|Walked home the long way to clear my head.
The lift was broken again, so nine floors on foot.|Played the same album on repeat while tidying the desk.
Forgot my umbrella and paid for it.|Slept badly, but the second coffee helped.
Bought oranges from the corner stall.|Swapped the keyboard back to the old one.
Nothing else worth a line today.|Phone battery died at the worst possible moment.
The sky went pink for about five minutes.|Left early and still missed the tram.""")

# Words that a person writes on the tag line only; elsewhere they turn up in passing, to mislead a search by words.
LABELS = _split("""转折点|小确幸|待跟进|断舍离|第一次|教训|值得重读|松一口气|灵感碎片|情绪低谷|约定|告别|破冰|复盘
里程碑|意外之喜|存疑|和解|备忘|逆风|答谢|翻篇|试错|未完成|慢生活|边界感|高光时刻|焦虑日|感恩|长期主义|自我怀疑|重新出发
仪式感|冷静期|求助|取舍|默契|误会|节流|留白""")

PASSING = _split("""这算不上什么{label}，随手记一笔。|跟{p}聊到“{label}”这个词，各有各的理解。
看到一篇讲{label}的文章，没什么新意。|{p}说这就叫{label}，我没接话。
以前总把{label}挂在嘴边，如今很少提了。|电台里有人在讲{label}，听了两句就换台了。
想过要不要写写{label}，最后还是算了。|群里为了{label}吵了几句，我没参与。""")

MISSED = _split("""本来说好{act}，后来没去成。|{p}又提起{act}的事，还没定日子。
看别人{act}挺热闹，我只是路过。|计划里写着{act}，一拖再拖。
刷到一条关于{act}的视频，看了一半。|想起好久以前{act}的样子，恍如隔世。""")

# Small things with names in them: they share words with what is asked for.
ERRANDS = _split("""路过{pl}，给{p}带了一份{dish}。|{p}从{pl}寄来一箱柿子，分了{n}户人家。
跟{p}在{pl}碰头，还了上次借的{m}块。|{p2}问我借{book}，说{n}天就还。
中午随便吃了{dish}，花了{n}块。|在{pl}排了{h}分钟的队，轮到我刚好卖完。
{p}发来一条语音，有{h}秒，讲的是{p2}家的事。|{pl}的路又挖开了，绕了{n}条街。
收到{p}的请帖，日子在{n}月。|{p}说{film}不错，先记着。
家里的秤显示少了{n}两，不太信。|{p2}在{pl}丢了伞，让我留意。
翻到{book}里夹的一张车票，是去{pl}的。|{p}养的鱼死了{n}条，闷闷不乐。
下班坐过站，到了{pl}才发觉。|{pl}新开了家铺子，招牌菜是{dish}。
帮{p}搬了{n}个纸箱，出了一身汗。|{p}托我排队买票，{h}块一张。
晚饭后陪{p}绕{pl}走了{n}圈。|在{pl}看见有人放风筝，线放了{m}米。
{p}的航班晚了{h}分钟，接到人已经很晚。|{p2}学会了做{dish}，硬要我尝。
办事要取号，前面还有{h}个人。|{p}说{pl}的桂花开了，约了{n}天后去。
账上少记一笔，{m}块，对了半天。|把{book}捐给了{pl}的漂流书架。
{p}牙疼，喝了{n}天粥。|{pl}停水，从早上{n}点停到晚上。
写了{n}张明信片，一张给{p}。|{p}和{p2}又和好了，请我喝茶。""")

ERRANDS_ENGLISH = _split("""Met {p} near {pl}, talked for {h} minutes.|{p} owes me {m} yuan for the tickets.
Lunch was {dish} again, {n} days in a row.|{p2} wants to borrow {book} for {n} days.
Took a detour by {pl} because of road works.|{p} keeps quoting {film}, I give up.
The queue at {pl} had {h} people in it.|Called {p} about the {n} boxes in the hall.""")
